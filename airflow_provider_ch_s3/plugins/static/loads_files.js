// Files by name: those of one load, and those of which a table holds rows.

import { CopyButton, Section, Table } from "./elements.js";
import { countOf, formatBytes } from "./format.js";
import { readLoadFiles, readTableFiles } from "./ledger_api.js";
import { Failure, formatTime } from "./loads_elements.js";
import { h, useEffect, useRef, useState } from "./react.js";

// Shown below what was clicked, so that the focus has to follow.
function Panel({ title, note, children }) {
  const panel = useRef(null);
  useEffect(() => panel.current.focus(), []);
  return h("div", { ref: panel, tabIndex: -1, className: "panel" }, h(Section, { title, note }, children));
}

function useAnswer(read, values) {
  const [answer, setAnswer] = useState({ found: null, failure: "" });
  useEffect(() => {
    let isGone = false;
    read(values)
      .then((found) => ({ found, failure: "" }))
      .catch((error) => ({ found: null, failure: error.message }))
      .then((given) => isGone || setAnswer(given));
    return () => {
      isGone = true;
    };
  }, Object.values(values));
  return answer;
}

function describeEvent({ time, event, try_number: number }) {
  return `${formatTime(time)} ${event} by try ${number}`;
}

function Story({ attempt }) {
  const events = attempt.events.map(describeEvent);
  return h(
    "div",
    { className: "story" },
    h("p", null, h("code", null, attempt.query_id), h(CopyButton, { text: attempt.query_id, what: "the query id" })),
    h("p", null, h("code", null, attempt.source)),
    h("ol", null, events.map((event, index) => h("li", { key: index }, event))),
  );
}

export function LoadFiles({ load, where }) {
  const { found, failure } = useAnswer(readLoadFiles, { load, ...where });
  const count = found && countOf(found.files.length, "file");
  return h(
    Panel,
    { title: "Files of a load", note: found?.is_cut ? `the first ${count}` : count },
    h(Failure, { text: failure }),
    found?.attempts.map((attempt) => h(Story, { key: attempt.query_id, attempt })),
    found?.skipped.map(({ files, why }) => h("p", { key: why }, `${countOf(files, "file")} skipped: ${why}.`)),
    found &&
      h(Table, {
        label: "Files of a load",
        head: ["file", "size", "ETag", "what became of it"],
        rows: found.files.map((file) => [
          h("code", null, file.path),
          formatBytes(file.size_bytes),
          h("code", null, file.etag),
          file.rows === null ? file.why : `${file.why}: ${countOf(file.rows, "row")}`,
        ]),
      }),
  );
}

export function TableFiles({ table, where }) {
  const [prefix, setPrefix] = useState("");
  const [asked, setAsked] = useState({ prefix: "", after: "" });
  const { found, failure } = useAnswer(readTableFiles, { table, ...asked, ...where });

  function search(event) {
    event.preventDefault();
    setAsked({ prefix, after: "" });
  }
  return h(
    Panel,
    { title: `Files in ${table}`, note: "that loads have brought, according to the ledger" },
    h(
      "form",
      { className: "filters", onSubmit: search },
      h(
        "label",
        null,
        "Path begins with",
        h("input", {
          value: prefix,
          placeholder: "bucket/folder/",
          onChange: (event) => setPrefix(event.target.value),
        }),
      ),
      h("button", { type: "submit" }, "Search"),
    ),
    h(Failure, { text: failure }),
    found &&
      h(Table, {
        label: `Files in ${table}`,
        head: ["file", "size", "ETag", "load", "attempt"],
        rows: found.files.map((file) => [
          h("code", null, file.path),
          formatBytes(file.size_bytes),
          h("code", null, file.etag),
          h("code", null, file.load_id),
          file.attempt,
        ]),
      }),
    found && !found.files.length && h("p", null, found.next ? "None of these is held any more." : "No such file."),
    found?.next &&
      h("button", { type: "button", onClick: () => setAsked({ ...asked, after: found.next }) }, "Next files"),
  );
}
