// The page "ClickHouse loads": Airflow imports this module, and shows the component it leaves in `AirflowPlugin`.

import { Failure } from "./elements.js";
import { readLoads } from "./ledger_api.js";
import { LoadFiles, TableFiles } from "./loads_files.js";
import { History, Now, Tables } from "./loads_lists.js";
import { loadStyle, useAnswer, withBoundary } from "./page.js";
import { html, useEffect, useState } from "./react.js";

const [BUSY_MILLISECONDS, IDLE_MILLISECONDS] = [3000, 30000];
const optionsOf = (names) => names.map((name) => [name, name]);
const STATES = [["", "all"], ["open", "running"], ...optionsOf(["committed", "undone", "abandoned"])];
const TIMES = [["", "at any time"], ["1", "in the last day"], ["7", "in the last 7 days"],
  ["30", "in the last 30 days"], ["365", "in the last year"]];
const FILTERS = { conn_id: "clickhouse_s3_default", ledger: "", table: "", dag: "", state: "", days: "", stale: "" };

// The filters are in the address, so that a page can be kept, and sent to somebody.
function readFilters() {
  const given = Object.fromEntries(new URLSearchParams(location.search));
  return Object.fromEntries(Object.entries(FILTERS).map(([name, value]) => [name, given[name] ?? value]));
}

function writeFilters(filters) {
  const given = Object.entries(filters).filter(([name, value]) => value && value !== FILTERS[name]);
  const search = new URLSearchParams(given).toString();
  history.replaceState(history.state, "", `${location.pathname}${search && `?${search}`}`);
}

function Choice({ label, value, options, choose }) {
  // What an address asks for is shown, even if there is no such thing.
  const all = options.some(([known]) => known === value) ? options : [...options, [value, value]];
  return html`
    <label>${label}
      <select value=${value} onChange=${(event) => choose(event.target.value)}>
        ${all.map(([known, text]) => html`<option key=${known} value=${known}>${text}</option>`)}
      </select>
    </label>`;
}

export function Filters({ filters, page, change, refresh }) {
  const [connection, setConnection] = useState(filters.conn_id);
  const [dag, setDag] = useState(filters.dag);
  useEffect(() => setConnection(filters.conn_id), [filters.conn_id]);
  useEffect(() => setDag(filters.dag), [filters.dag]);
  const ledgers = page ? optionsOf(page.ledgers) : [["", "default"]];
  const ledger = filters.ledger || page?.ledger || "";
  const nameOf = ({ table, named }) => (named === table ? table : `${named} (${table})`);
  const tables = [["", "all"], ...(page?.tables ?? []).map((one) => [one.table, nameOf(one)])];
  const dags = [...new Set([...(page?.loads ?? []), ...(page?.open ?? [])].map((load) => load.dag))].sort();
  const isOther = connection !== filters.conn_id;
  const type = (event) => setConnection(event.target.value);
  const open = () => change({ conn_id: connection, ledger: "", table: "" });

  function submit(event) {
    event.preventDefault();
    return isOther ? open() : dag !== filters.dag ? change({ dag }) : refresh();
  }
  const choice = (label, value, options, choose) =>
    html`<${Choice} label=${label} value=${value} options=${options} choose=${choose} />`;
  return html`
    <form className="filters" onSubmit=${submit}>
      <label>Connection<input value=${connection} required=${true} onChange=${type} /></label>
      ${choice("Ledger", ledger, ledgers, (chosen) => change({ ledger: chosen, table: "" }))}
      ${choice("Table", filters.table, tables, (table) => change({ table }))}
      <label>DAG
        <input value=${dag} list="ch-s3-dags" placeholder="all" onChange=${(event) => setDag(event.target.value)} />
        <datalist id="ch-s3-dags">${dags.map((one) => html`<option key=${one} value=${one} />`)}</datalist>
      </label>
      ${choice("State", filters.state, STATES, (state) => change({ state }))}
      ${choice("Planned", filters.days, TIMES, (days) => change({ days }))}
      <button type="submit">${isOther ? "Open" : dag !== filters.dag ? "Filter" : "Refresh"}</button>
    </form>`;
}

function LoadsPage() {
  const [filters, setFilters] = useState(readFilters);
  // Where each page up to this one begins.
  const [places, setPlaces] = useState([""]);
  const [refreshed, setRefreshed] = useState(0);
  const [chosen, setChosen] = useState(null);
  const after = places.at(-1);
  const { stale, ...asked } = filters;
  const read = () => readLoads({ ...asked, after });
  // Older pages stay as they are.
  const pause = (found) => (after ? 0 : found?.open.length ? BUSY_MILLISECONDS : IDLE_MILLISECONDS);
  const { found: page, failure, isPending } = useAnswer(read, [asked, after, refreshed], pause);
  useEffect(() => writeFilters(filters), Object.values(filters));

  function change(changed) {
    setFilters({ ...filters, ...changed });
    setPlaces([""]);
    setChosen(null);
  }
  const where = { conn_id: filters.conn_id, ledger: filters.ledger };
  const filterBy = (table) => change({ table });
  const setStale = (days) => setFilters({ ...filters, stale: days });
  const lists = () => html`
    <div>
      <${Now} page=${page} />
      <${Tables} tables=${page.tables} showFiles=${setChosen} filter=${filterBy} stale=${stale} setStale=${setStale} />
      <${History} page=${page} places=${places} setPlaces=${setPlaces} showFiles=${(load) => setChosen({ load })} />
      ${chosen?.load && html`<${LoadFiles} key=${chosen.load} load=${chosen.load} where=${where} />`}
      ${chosen?.table && html`<${TableFiles} key=${chosen.table} ...${chosen} where=${where} />`}
    </div>`;
  return html`
    <article className="ch-s3-report ch-s3-loads" aria-busy=${isPending}>
      <h2>ClickHouse loads</h2>
      <${Filters} filters=${filters} page=${page} change=${change} refresh=${() => setRefreshed(refreshed + 1)} />
      <${Failure} text=${failure} />
      ${!page && !failure && html`<p className="outcome">Reading the ledger…</p>`}
      ${page && lists()}
    </article>`;
}

await Promise.all([loadStyle("load_report.css"), loadStyle("loads.css")]);
globalThis.AirflowPlugin = withBoundary(LoadsPage);
