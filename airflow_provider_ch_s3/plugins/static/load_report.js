// The tab "Load report": Airflow imports this module, and shows the component that it leaves in `AirflowPlugin`.

import { readHistory, readPartsAfter, readTask } from "./api.js";
import { History, Nodes, Progress, Steps } from "./charts.js";
import { Checks, Files, Partitions, Rejected, Settings, Sql } from "./details.js";
import { Cards, Header, Outcome } from "./header.js";
import { ledgerOf, readLoadSettings } from "./ledger_api.js";
import { loadStyle, untilOver, useAnswer, withBoundary } from "./page.js";
import { Parts, SensorReport } from "./parts.js";
import { html } from "./react.js";
import { readUndone } from "./undone.js";

export function Load({ task, place }) {
  const { report, fields, isOver } = task;
  const hasLoaded = Boolean(report?.query_id);
  // Without staging, the ledger does not know the load.
  const isStaged = hasLoaded && report.partitions !== null;
  const key = [place, isOver, hasLoaded];
  const { found: past } = useAnswer(isOver ? () => readHistory(place) : null, key);
  const { found: after } = useAnswer(hasLoaded ? () => readPartsAfter(place, fields.table) : null, key, untilOver);
  const look = isStaged ? () => readUndone(report, fields.clickhouse_conn_id) : null;
  const { found: undone } = useAnswer(look, [...key, report?.query_id]);
  // While the query runs, its id is in the log.
  const query = report ? isStaged && report.query_id : task.query;
  const plan = query ? () => readLoadSettings({ load: query, ...ledgerOf(fields, fields.clickhouse_conn_id) }) : null;
  const { found: planned } = useAnswer(plan, [place, query]);
  const settings = planned ?? (hasLoaded && !isStaged && report);
  const show = (Shown) => hasLoaded && html`<${Shown} report=${report} />`;
  return html`
    <article className="ch-s3-report">
      <${Header} load=${task} undone=${undone} />
      <${Outcome} load=${task} undone=${undone} />
      ${show(Cards)}
      <${Checks} verified=${hasLoaded ? report.checks : []} checks=${task.checks} />
      ${show(Rejected)}
      <${Progress} progress=${task.progress} report=${report} />
      ${hasLoaded && html`<${Steps} report=${report} taskSeconds=${task.seconds} />`}
      ${show(Nodes)}
      ${after?.sensor && html`<${Parts} sensor=${after.sensor} />`}
      ${show(Partitions)}
      ${isStaged && html`<${Files} report=${report} connection=${fields.clickhouse_conn_id} />`}
      <${History} history=${past ?? []} place=${place} />
      ${settings && html`<${Settings} planned=${settings} />`}
      ${fields.sql && html`<${Sql} text=${fields.sql} />`}
    </article>`;
}

function LoadReport(place) {
  const key = [place.dagId, place.runId, place.taskId, place.mapIndex];
  const { found: task, failure } = useAnswer(() => readTask(place), key, untilOver);
  const say = (text) => html`<p className="ch-s3-report" role=${failure && "alert"}>${text}</p>`;
  if (failure || !task) {
    return say(failure ?? "Reading the report…");
  }
  if (task.isSensor) {
    return html`<${SensorReport} task=${task} />`;
  }
  return task.isLoad
    ? html`<${Load} task=${task} place=${place} />`
    : say("This task does not load files into ClickHouse, so it has no report.");
}

await loadStyle("load_report.css");
globalThis.AirflowPlugin = withBoundary(LoadReport);
