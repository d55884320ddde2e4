// The lists of the page: what is going on now, the tables of the ledger, and the history of loads.

import { Section, Table, useFirst } from "./elements.js";
import { countOf, formatAge, formatCount, formatSeconds, formatTime } from "./format.js";
import { html } from "./react.js";

const FIRST_TABLES = 10;
const OPEN_HEAD = ["running load", "age", "task", "table", "state", "try", "files"];
const LOCK_HEAD = ["lock of", "held for", "last sign of life", "owner", "try"];

// The table as the task names it, which may be a Distributed one over the local table.
const Name = ({ of: { table, named } }) => html`<span title=${table}>${named}</span>`;

function State({ load }) {
  const isHeld = load.held_seconds_left !== null;
  const state = load.is_validated_only ? "validated" : isHeld ? "held" : load.state;
  const name = load.is_broken ? "commit broken off" : state.replace("planned", "running");
  return html`<span className="state ${state}">${name}</span>`;
}

// Who loads: the task, with a link to its report, and below it the run.
function Who({ load: { dag, run, task, map_index: index } }) {
  const [dagId, runId, taskId] = [dag, run, task].map(encodeURIComponent);
  const isMapped = index >= 0;
  const path = `dags/${dagId}/runs/${runId}/tasks/${taskId}${isMapped ? `/mapped/${index}` : ""}/plugin/load_report`;
  const name = `${dag}.${task}${isMapped ? `[${index}]` : ""}`;
  const href = new URL(path, document.baseURI);
  return html`<span className="who"><a href=${href}>${name}</a><small>${run}</small></span>`;
}

const ageOf = (seconds) => (seconds === null ? "?" : formatAge(seconds));

export function Now({ page: { open, locks } }) {
  const openRows = open.map((load) => [
    html`<code>${load.query_id}</code>`,
    ageOf(load.age_seconds),
    html`<${Who} load=${load} />`,
    html`<${Name} of=${load} />`,
    html`<${State} load=${load} />`,
    load.try_number,
    formatCount(load.files),
  ]);
  const lockRows = locks.map((lock) => [
    html`<${Name} of=${lock} />`,
    ageOf(lock.age_seconds),
    lock.silent_seconds === null ? "?" : `${formatAge(lock.silent_seconds)} ago`,
    lock.owner,
    lock.try_number,
  ]);
  if (!open.length && !locks.length) {
    return html`<${Section} title="Now"><p>No load is running, and no lock is held.</p><//>`;
  }
  return html`
    <${Section} title="Now" note="the next load into a table finishes or removes what nobody continues">
      ${open.length > 0 && html`<${Table} label="Running loads" head=${OPEN_HEAD} rows=${openRows} />`}
      ${locks.length > 0 && html`<${Table} label="Locks" head=${LOCK_HEAD} rows=${lockRows} />`}
    <//>`;
}

export function Tables({ tables, filter, showFiles }) {
  const [shown, more] = useFirst(tables, FIRST_TABLES);
  const action = (what, text, act) => html`<button type="button" onClick=${act} aria-label=${what}>${text}</button>`;
  const rows = shown.map(({ table, named, commits, idle_seconds: idle }) => [
    html`<${Name} of=${{ table, named }} />`,
    formatCount(commits),
    idle === null ? "never" : `${formatAge(idle)} ago`,
    html`
      <span className="actions">
        ${action(`Loads of ${named}`, "Loads", () => filter(table))}
        ${action(`Files in ${named}`, "Files", () => showFiles({ table, named }))}
      </span>`,
  ]);
  return html`
    <${Section} title="Tables" note=${countOf(tables.length, "table")}>
      <${Table} label="Tables" head=${["table", "commits", "last commit", "show"]} rows=${rows} />
      ${more}
    <//>`;
}

function rowOf(load, showFiles) {
  const show = () => showFiles(load.query_id);
  const what = `Files of ${load.query_id}`;
  const files = formatCount(load.files);
  return [
    formatTime(load.started),
    html`<${Name} of=${load} />`,
    html`<${Who} load=${load} />`,
    html`<span><code>${load.load_mode}</code>${load.chunk && html`<small>chunk ${load.chunk}</small>`}</span>`,
    html`<${State} load=${load} />`,
    html`<button type="button" onClick=${show} aria-label="${load.files} ${what}" title=${what}>${files}</button>`,
    load.rows === null ? "" : formatCount(load.rows),
    load.seconds === null ? "" : formatSeconds(load.seconds),
  ];
}

// Page by page: as many rows as a browser shows at once without effort.
export function History({ page: { loads, next }, places, setPlaces, showFiles }) {
  const isFirst = places.length === 1;
  const head = ["planned (UTC)", "table", "task", "mode", "state", "files", "rows", "seconds"];
  const rows = loads.map((load) => rowOf(load, showFiles));
  const turn = (text, isPossible, to) =>
    html`<button type="button" disabled=${!isPossible} onClick=${() => setPlaces(to)}>${text}</button>`;
  return html`
    <${Section} title="Loads" note=${isFirst ? "the newest first" : `page ${places.length}`}>
      ${rows.length > 0
        ? html`<${Table} label="Loads" head=${head} rows=${rows} />`
        : html`<p>No load is recorded for these filters.</p>`}
      <nav className="actions" aria-label="Pages of loads">
        ${turn("Newer", !isFirst, places.slice(0, -1))}
        ${turn("Older", Boolean(next), [...places, next])}
      </nav>
    <//>`;
}
