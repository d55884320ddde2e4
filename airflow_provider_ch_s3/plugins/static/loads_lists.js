// The lists of the page: what is going on now, the tables of the ledger, and the history of loads.

import { Section, Table, useFirst } from "./elements.js";
import { countOf, formatAge, formatCount, formatSeconds, formatTime, zoneName } from "./format.js";
import { readFailure } from "./failure.js";
import { generationOf } from "./ledger_api.js";
import { html, useState } from "./react.js";

const FIRST_TABLES = 10;
const DAY_SECONDS = 86400;
const STALE = [["", "all tables"], ["1", "without a load for a day"], ["7", "for 7 days"], ["30", "for 30 days"]];
const OPEN_HEAD = ["running load", "age", "task", "table", "state", "try", "files"];
const LOCK_HEAD = ["lock of", "held for", "last heartbeat", "owner", "try"];

// The table as the task names it, which may be a Distributed one over the local table.
const Name = ({ of: { table, named } }) => html`<span title=${table}>${named}</span>`;

// What a person should look at, although the rows are there.
const oddities = ({ rows_rejected: rejected, checks_warned: warned }) =>
  [rejected > 0 && `${countOf(rejected, "row")} rejected`, warned > 0 && `${countOf(warned, "check")} not fulfilled`]
    .filter(Boolean).join(", ");

function State({ load }) {
  const isHeld = load.held_seconds_left !== null;
  const state = load.is_validated_only ? "validated" : isHeld ? "held" : load.state;
  const name = load.is_broken ? "commit broken off" : state.replace("planned", "running");
  const odd = state === "committed" ? oddities(load) : "";
  const at = state === "undone" && load.ended !== null && `at ${formatTime(load.ended)}`;
  // The reason in full is with the files of the load.
  const why = load.error && readFailure(load.error).headline;
  return html`
    <span>
      <span className="state ${odd ? "odd" : state}">${name}</span>
      ${[at, odd, why].filter(Boolean).map((text) => html`<small key=${text} className="why">${text}</small>`)}
    </span>`;
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

// How far the INSERT of a load is; nothing while the load plans, verifies or commits.
const Progress = ({ of: { text, done } }) =>
  html`<span><progress aria-label="Progress" value=${done ?? undefined} /><small className="why">${text}</small></span>`;

export function Now({ page: { open, locks, progress = {} } }) {
  const openRows = open.map((load) => [
    html`<code>${load.query_id}</code>`,
    ageOf(load.age_seconds),
    html`<${Who} load=${load} />`,
    html`<${Name} of=${load} />`,
    progress[load.query_id] ? html`<${Progress} of=${progress[load.query_id]} />` : html`<${State} load=${load} />`,
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

// A table that no load has ever changed is stale, whatever the limit.
const isStale = ({ idle_seconds: idle }, days) => !days || idle === null || idle > days * DAY_SECONDS;

export function Tables({ tables, filter, showFiles, stale = "", setStale }) {
  const found = tables.filter((table) => isStale(table, Number(stale)));
  const [shown, more] = useFirst(found, FIRST_TABLES);
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
    <${Section} title="Tables" note=${countOf(found.length, "table")}>
      <label className="stale">Show
        <select value=${stale} onChange=${(event) => setStale(event.target.value)}>
          ${STALE.map(([days, text]) => html`<option key=${days} value=${days}>${text}</option>`)}
        </select>
      </label>
      <${Table} label="Tables" head=${["table", "commits", "last commit", "show"]} rows=${rows} />
      ${more}
    <//>`;
}

// Of a load with several attempts (chunks, or tries that failed): the newest one, with the sums of all.
const sumOf = (attempts, name) => {
  const known = attempts.map((one) => one[name]).filter((number) => number !== null);
  return known.length ? known.reduce((sum, number) => sum + number, 0) : null;
};

function joined(attempts) {
  const [newest] = attempts;
  const oldest = attempts.at(-1);
  const kept = attempts.filter(({ state }) => state !== "abandoned");
  const held = kept.length ? kept : [newest];
  const names = ["files", "rows", "rows_rejected", "checks_warned", "seconds"];
  return { ...newest, started: oldest.started, ...Object.fromEntries(names.map((name) => [name, sumOf(held, name)])) };
}

// The attempts of each load together; the loads in the order of their newest attempts.
export function groupLoads(loads) {
  const groups = new Map();
  for (const load of loads) {
    const key = generationOf(load);
    groups.set(key, [...(groups.get(key) ?? []), load]);
  }
  return [...groups.values()].map((attempts) => ({ load: joined(attempts), attempts }));
}

function rowOf(load, showFiles, more = "") {
  const show = () => showFiles(more ? load.load_id : load.query_id);
  const what = `Files of ${more ? load.load_id : load.query_id}`;
  const files = formatCount(load.files);
  return [
    formatTime(load.started),
    html`<${Name} of=${load} />`,
    html`<${Who} load=${load} />`,
    html`<span><code>${load.load_mode}</code>${more || (load.chunk && html`<small>chunk ${load.chunk}</small>`)}</span>`,
    html`<${State} load=${load} />`,
    html`<button type="button" onClick=${show} aria-label="${load.files} ${what}" title=${what}>${files}</button>`,
    load.rows === null ? "" : formatCount(load.rows),
    load.seconds === null ? "" : formatSeconds(load.seconds),
  ];
}

// Page by page: as many rows as a browser shows at once without effort.
export function History({ page: { loads, next }, places, setPlaces, showFiles }) {
  const isFirst = places.length === 1;
  const head = [`planned (${zoneName()})`, "table", "task", "mode", "state", "files", "rows", "seconds"];
  const [unfolded, setUnfolded] = useState("");
  // A load whose further attempts are on the page before, or on the next page.
  const cut = new Set([!isFirst && loads[0], next && loads.at(-1)].filter(Boolean).map(generationOf));
  const rows = groupLoads(loads).flatMap(({ load, attempts }) => {
    if (attempts.length === 1) {
      return [rowOf(load, showFiles)];
    }
    const key = generationOf(load);
    const isOpen = unfolded === key;
    const what = countOf(attempts.length, attempts.some(({ chunk }) => chunk) ? "chunk" : "attempt");
    const toggle = () => setUnfolded(isOpen ? "" : key);
    const text = cut.has(key) ? `${what} on this page` : what;
    const more = html`<button type="button" aria-expanded=${isOpen} onClick=${toggle}>${text}</button>`;
    return [rowOf(load, showFiles, more), ...(isOpen ? attempts.map((one) => rowOf(one, showFiles)) : [])];
  });
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
