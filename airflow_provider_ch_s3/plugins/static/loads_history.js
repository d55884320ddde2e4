// The history of loads, page by page: as many rows as a browser shows at once without effort.

import { Section, Table } from "./elements.js";
import { formatCount, formatSeconds } from "./format.js";
import { State, Who, formatTime } from "./loads_elements.js";
import { Fragment, h } from "./react.js";

function rowOf(load, showFiles) {
  const what = `Files of ${load.query_id}`;
  return [
    formatTime(load.started),
    load.table,
    h(Who, { load }),
    h(Fragment, null, h("code", null, load.load_mode), load.chunk && h("small", null, `chunk ${load.chunk}`)),
    h(State, { load }),
    h(
      "button",
      { type: "button", onClick: () => showFiles(load.query_id), "aria-label": `${load.files} ${what}`, title: what },
      formatCount(load.files),
    ),
    load.rows === null ? "" : formatCount(load.rows),
    load.seconds === null ? "" : formatSeconds(load.seconds),
  ];
}

export function History({ page: { loads, next }, places, setPlaces, showFiles }) {
  const isFirst = places.length === 1;
  return h(
    Section,
    { title: "Loads", note: isFirst ? "the newest first" : `page ${places.length}` },
    loads.length
      ? h(Table, {
          label: "Loads",
          head: ["planned (UTC)", "table", "task", "mode", "state", "files", "rows", "seconds"],
          rows: loads.map((load) => rowOf(load, showFiles)),
        })
      : h("p", null, "No load is recorded for these filters."),
    h(
      "nav",
      { className: "actions", "aria-label": "Pages of loads" },
      h("button", { type: "button", disabled: isFirst, onClick: () => setPlaces(places.slice(0, -1)) }, "Newer"),
      h("button", { type: "button", disabled: !next, onClick: () => setPlaces([...places, next]) }, "Older"),
    ),
  );
}
