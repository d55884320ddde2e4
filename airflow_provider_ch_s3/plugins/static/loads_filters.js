// Which ledger the page shows, and which loads in it.

import { html, useEffect, useState } from "./react.js";

const STATES = [["", "all"], ["open", "running"], ["committed", "committed"], ["undone", "undone"],
  ["abandoned", "abandoned"]];
const TIMES = [
  ["", "at any time"],
  ["1", "in the last day"],
  ["7", "in the last 7 days"],
  ["30", "in the last 30 days"],
  ["365", "in the last year"],
];

const optionsOf = (names) => names.map((name) => [name, name]);

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
  useEffect(() => setConnection(filters.conn_id), [filters.conn_id]);
  const ledgers = page ? optionsOf(page.ledgers) : [["", "default"]];
  const ledger = filters.ledger || page?.ledger || "";
  const nameOf = ({ table, named }) => (named === table ? table : `${named} (${table})`);
  const tables = [["", "all"], ...(page?.tables ?? []).map((one) => [one.table, nameOf(one)])];
  const isOther = connection !== filters.conn_id;
  const type = (event) => setConnection(event.target.value);

  function submit(event) {
    event.preventDefault();
    if (isOther) {
      change({ conn_id: connection, ledger: "", table: "" });
    } else {
      refresh();
    }
  }
  const choice = (label, value, options, choose) =>
    html`<${Choice} label=${label} value=${value} options=${options} choose=${choose} />`;
  return html`
    <form className="filters" onSubmit=${submit}>
      <label>Connection<input value=${connection} required=${true} onChange=${type} /></label>
      ${choice("Ledger", ledger, ledgers, (chosen) => change({ ledger: chosen, table: "" }))}
      ${choice("Table", filters.table, tables, (table) => change({ table }))}
      ${choice("State", filters.state, STATES, (state) => change({ state }))}
      ${choice("Planned", filters.days, TIMES, (days) => change({ days }))}
      <button type="submit">${isOther ? "Open" : "Refresh"}</button>
    </form>`;
}
