// The tab "Load report": Airflow imports this module, and shows the component that it leaves in `AirflowPlugin`.

import { readHistory, readPartsAfter, readTask } from "./api.js";
import { withBoundary } from "./boundary.js";
import { Header, Outcome } from "./header.js";
import { Cards } from "./cards.js";
import { History, Nodes, Progress, Steps } from "./charts.js";
import { Checks, Partitions, Rejected, Settings, Sql } from "./details.js";
import { Files } from "./files.js";
import { Parts } from "./parts.js";
import { SensorReport } from "./sensor.js";
import { h, useEffect, useState } from "./react.js";
import { loadStyle } from "./style.js";

const POLL_MILLISECONDS = 3000;

// Reads again and again until what was read is over; `read` is null as long as there is nothing to read.
function usePolled(read, dependencies) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let timer = null;
    let isGone = false;
    async function poll() {
      const next = await read().catch((error) => ({ failure: error.message }));
      if (!isGone) {
        setFound(next);
        timer = next.isOver ? null : setTimeout(poll, POLL_MILLISECONDS);
      }
    }
    if (read) {
      poll();
    }
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, dependencies);
  return found;
}

function Load({ task, place }) {
  const { report, fields, isOver } = task;
  const key = [place.dagId, place.runId, place.taskId, place.mapIndex, isOver];
  const hasLoaded = Boolean(report?.query_id);
  // Without staging, the ledger does not know the load.
  const isStaged = hasLoaded && report.partitions !== null;
  const readPast = async () => ({ loads: await readHistory(place), isOver: true });
  const past = usePolled(isOver ? readPast : null, key);
  const after = usePolled(hasLoaded ? () => readPartsAfter(place, fields.table) : null, [...key, hasLoaded]);
  return h(
    "article",
    { className: "ch-s3-report" },
    h(Header, { load: task }),
    h(Outcome, { load: task }),
    hasLoaded && h(Cards, { report }),
    hasLoaded && h(Checks, { checks: report.checks }),
    hasLoaded && h(Rejected, { report }),
    h(Progress, { progress: task.progress }),
    hasLoaded && h(Steps, { report }),
    hasLoaded && h(Nodes, { nodes: report.nodes }),
    after?.sensor && h(Parts, { sensor: after.sensor }),
    hasLoaded && h(Partitions, { report }),
    isStaged && h(Files, { report, connection: fields.clickhouse_conn_id }),
    h(History, { history: past?.loads ?? [], place }),
    hasLoaded && h(Settings, { report }),
    fields.sql && h(Sql, { text: fields.sql }),
  );
}

function LoadReport(place) {
  const task = usePolled(() => readTask(place), [place.dagId, place.runId, place.taskId, place.mapIndex]);
  if (task === null) {
    return h("p", { className: "ch-s3-report" }, "Reading the report…");
  }
  if (task.failure) {
    return h("p", { className: "ch-s3-report", role: "alert" }, task.failure);
  }
  if (task.isSensor) {
    return h(SensorReport, { task });
  }
  if (!task.isLoad) {
    return h("p", { className: "ch-s3-report" }, "This task is no load into ClickHouse: it has no report.");
  }
  return h(Load, { task, place });
}

await loadStyle("load_report.css");
globalThis.AirflowPlugin = withBoundary(LoadReport);
