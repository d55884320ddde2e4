// The page "ClickHouse loads"; Airflow imports this module, and shows the component that it leaves in `AirflowPlugin`.

import { withBoundary } from "./boundary.js";
import { Failure } from "./loads_elements.js";
import { readLoads } from "./ledger_api.js";
import { LoadFiles, TableFiles } from "./loads_files.js";
import { Filters } from "./loads_filters.js";
import { History } from "./loads_history.js";
import { Now } from "./loads_now.js";
import { Tables } from "./loads_tables.js";
import { h, useEffect, useState } from "./react.js";
import { loadStyle } from "./style.js";

const FILTERS = { conn_id: "clickhouse_s3_default", ledger: "", table: "", state: "", days: "" };

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

// The page that was asked for last, whichever answer comes last; the one before stays until then.
function usePage(filters, after, refreshed) {
  const [answer, setAnswer] = useState({ page: null, failure: "", asked: null });
  const asked = JSON.stringify([filters, after, refreshed]);
  useEffect(() => {
    let isGone = false;
    readLoads({ ...filters, after })
      .then((page) => ({ page, failure: "" }))
      .catch((error) => ({ page: null, failure: error.message }))
      .then((found) => isGone || setAnswer({ ...found, asked }));
    return () => {
      isGone = true;
    };
  }, [asked]);
  return { ...answer, isPending: answer.asked !== asked };
}

function LoadsPage() {
  const [filters, setFilters] = useState(readFilters);
  // Where each page up to this one begins.
  const [places, setPlaces] = useState([""]);
  const [refreshed, setRefreshed] = useState(0);
  const [chosen, setChosen] = useState(null);
  const { page, failure, isPending } = usePage(filters, places.at(-1), refreshed);
  useEffect(() => writeFilters(filters), Object.values(filters));

  function change(changed) {
    setFilters({ ...filters, ...changed });
    setPlaces([""]);
    setChosen(null);
  }
  const where = { conn_id: filters.conn_id, ledger: filters.ledger };
  return h(
    "article",
    { className: "ch-s3-report ch-s3-loads", "aria-busy": isPending },
    h("h2", null, "ClickHouse loads"),
    h(Filters, { filters, page, change, refresh: () => setRefreshed(refreshed + 1) }),
    h(Failure, { text: failure }),
    !page && !failure && h("p", { className: "outcome" }, "Reading the ledger…"),
    page && h(Now, { page }),
    page &&
      h(Tables, {
        tables: page.tables,
        showFiles: (table) => setChosen({ table }),
        filter: (table) => change({ table }),
      }),
    page && h(History, { page, places, setPlaces, showFiles: (load) => setChosen({ load }) }),
    page && chosen?.load && h(LoadFiles, { key: chosen.load, load: chosen.load, where }),
    page && chosen?.table && h(TableFiles, { key: chosen.table, table: chosen.table, where }),
  );
}

await Promise.all([loadStyle("load_report.css"), loadStyle("loads.css")]);
globalThis.AirflowPlugin = withBoundary(LoadsPage);
