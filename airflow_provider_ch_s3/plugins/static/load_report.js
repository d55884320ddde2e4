// The tab "Load report": Airflow imports this module, and shows the component that it leaves in `AirflowPlugin`.

import { readHistory, readPartsAfter, readTask } from "./api.js";
import { History, Nodes, Progress, Steps } from "./charts.js";
import { Checks, Files, Partitions, Rejected, Settings, Sql } from "./details.js";
import { Cards, Header, Outcome } from "./header.js";
import { loadStyle, untilOver, useAnswer, withBoundary } from "./page.js";
import { Parts, SensorReport } from "./parts.js";
import { html } from "./react.js";

export function Load({ task, place }) {
  const { report, fields, isOver } = task;
  const hasLoaded = Boolean(report?.query_id);
  // Without staging, the ledger does not know the load.
  const isStaged = hasLoaded && report.partitions !== null;
  const key = [place, isOver, hasLoaded];
  const { found: past } = useAnswer(isOver ? () => readHistory(place) : null, key);
  const readAfter = hasLoaded ? () => readPartsAfter(place, fields.table) : null;
  const { found: after } = useAnswer(readAfter, key, untilOver);
  return html`
    <article className="ch-s3-report">
      <${Header} load=${task} />
      <${Outcome} load=${task} />
      ${hasLoaded && html`<${Cards} report=${report} />`}
      <${Checks} verified=${hasLoaded ? report.checks : []} checks=${task.checks} />
      ${hasLoaded && html`<${Rejected} report=${report} />`}
      <${Progress} progress=${task.progress} report=${report} />
      ${hasLoaded && html`<${Steps} report=${report} />`}
      ${hasLoaded && html`<${Nodes} nodes=${report.nodes} />`}
      ${after?.sensor && html`<${Parts} sensor=${after.sensor} />`}
      ${hasLoaded && html`<${Partitions} report=${report} />`}
      ${isStaged && html`<${Files} report=${report} connection=${fields.clickhouse_conn_id} />`}
      <${History} history=${past ?? []} place=${place} />
      ${hasLoaded && html`<${Settings} report=${report} />`}
      ${fields.sql && html`<${Sql} text=${fields.sql} />`}
    </article>`;
}

function LoadReport(place) {
  const key = [place.dagId, place.runId, place.taskId, place.mapIndex];
  const { found: task, failure } = useAnswer(() => readTask(place), key, untilOver);
  if (failure) {
    return html`<p className="ch-s3-report" role="alert">${failure}</p>`;
  }
  if (!task) {
    return html`<p className="ch-s3-report">Reading the report…</p>`;
  }
  if (task.isSensor) {
    return html`<${SensorReport} task=${task} />`;
  }
  if (!task.isLoad) {
    return html`<p className="ch-s3-report">This task does not load files into ClickHouse, so it has no report.</p>`;
  }
  return html`<${Load} task=${task} place=${place} />`;
}

await loadStyle("load_report.css");
globalThis.AirflowPlugin = withBoundary(LoadReport);
