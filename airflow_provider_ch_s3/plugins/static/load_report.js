// The tab "Load report": Airflow imports this module, and shows the component that it leaves in `AirflowPlugin`.

import { readHistory, readLoad } from "./api.js";
import { Header, Outcome } from "./header.js";
import { Cards } from "./cards.js";
import { History, Nodes, Steps } from "./charts.js";
import { Checks, Partitions, Rejected, Settings, Sql } from "./details.js";
import { h, useEffect, useState } from "./react.js";
import { loadStyle } from "./style.js";

const POLL_MILLISECONDS = 3000;

function useLoad(place) {
  const [load, setLoad] = useState(null);
  useEffect(() => {
    let timer = null;
    let isGone = false;
    async function poll() {
      const found = await readLoad(place).catch((error) => ({ failure: error.message, isOver: true }));
      if (!isGone) {
        setLoad(found);
        timer = found.isOver ? null : setTimeout(poll, POLL_MILLISECONDS);
      }
    }
    poll();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [place.dagId, place.runId, place.taskId, place.mapIndex]);
  return load;
}

function useHistory(place, isWanted) {
  const [history, setHistory] = useState([]);
  useEffect(() => {
    let isGone = false;
    if (isWanted) {
      readHistory(place).then((found) => isGone || setHistory(found));
    }
    return () => {
      isGone = true;
    };
  }, [place.dagId, place.runId, place.taskId, place.mapIndex, isWanted]);
  return history;
}

function LoadReport(place) {
  const load = useLoad(place);
  const history = useHistory(place, Boolean(load?.isLoad && load.isOver));
  if (load === null) {
    return h("p", { className: "ch-s3-report" }, "Reading the report…");
  }
  if (load.failure) {
    return h("p", { className: "ch-s3-report", role: "alert" }, load.failure);
  }
  if (!load.isLoad) {
    return h("p", { className: "ch-s3-report" }, "This task is no load into ClickHouse: it has no report.");
  }
  const { report, fields } = load;
  const hasLoaded = Boolean(report?.query_id);
  return h(
    "article",
    { className: "ch-s3-report" },
    h(Header, { load }),
    h(Outcome, { load }),
    hasLoaded && h(Cards, { report }),
    hasLoaded && h(Checks, { checks: report.checks }),
    hasLoaded && h(Rejected, { report }),
    hasLoaded && h(Steps, { report }),
    hasLoaded && h(Nodes, { nodes: report.nodes }),
    hasLoaded && h(Partitions, { report }),
    h(History, { history, place }),
    hasLoaded && h(Settings, { report }),
    fields.sql && h(Sql, { text: fields.sql }),
  );
}

await loadStyle("load_report.css");
globalThis.AirflowPlugin = LoadReport;
