// How a load went: rows over time, where the seconds went, what each node did, and the last loads of the task.

import { Bar, Section, Table } from "./elements.js";
import { countOf, formatBytes, formatCount, formatSeconds } from "./format.js";
import { LineChart, TimeChart } from "./line_chart.js";
import { html } from "./react.js";

const STEPS = ["plan", "INSERT", "settle", "verify", "commit"];

// [[step, its seconds]], and their sum
export function secondsOf(report) {
  const ofStep = (name) => report[name === "INSERT" ? "seconds" : `${name}_seconds`] ?? 0;
  const steps = STEPS.map((name) => [name, ofStep(name)]).filter(([, seconds]) => seconds > 0);
  return [steps, steps.reduce((sum, [, seconds]) => sum + seconds, 0)];
}

export function Steps({ report }) {
  const [steps, total] = secondsOf(report);
  const bar = ([name, size]) => html`<span key=${name} className=${name} style=${{ flexGrow: size / total }} />`;
  const entry = ([name, seconds]) =>
    html`<li key=${name}><i className=${name} />${name} <b>${formatSeconds(seconds)}</b></li>`;
  return html`
    <${Section} title="Seconds" note="${formatSeconds(total)} in all">
      <div className="steps" aria-hidden=${true}>${steps.map(bar)}</div>
      <ul className="legend">${steps.map(entry)}</ul>
    <//>`;
}

export function Nodes({ nodes }) {
  const shares = Object.entries(nodes).sort(([a], [b]) => a.localeCompare(b));
  const rows = shares.map(([, node]) => node.rows_written);
  const [most, mean] = [Math.max(...rows), rows.reduce((sum, one) => sum + one, 0) / rows.length];
  const skew = rows.length > 1 && mean ? `the largest share is ${(most / mean).toFixed(2)} times the mean` : "";
  const cells = shares.map(([name, node]) => [
    name,
    html`<${Bar} value=${node.rows_written} most=${most} />`,
    formatCount(node.files),
    formatBytes(node.read_bytes),
    formatCount(node.requests),
    formatBytes(node.peak_memory_bytes),
    formatCount(node.initial_parts),
  ]);
  const head = ["node", "rows", "files", "read", "requests", "peak memory", "parts"];
  return html`<${Section} title="Nodes" note=${skew}><${Table} label="Each node's share" head=${head} rows=${cells} /><//>`;
}

// While the load runs, and afterwards, as its log tells it, up to what the report says of its end.
export function Progress({ progress, report }) {
  const end = report?.query_id ? [[report.ended, report.rows_read]] : [];
  const points = [...progress.map(({ at, rows }) => [at, rows]), ...end];
  if (points.length < 2) {
    return null;
  }
  const [at, rows] = points.at(-1);
  const note = `${formatSeconds(Math.max(0, at - points[0][0]))}: ${countOf(rows, "row")}`;
  const series = [{ name: "rows read", className: "real", points }];
  return html`<${Section} title="Rows over time" note=${note}><${TimeChart} series=${series} noun="row" /><//>`;
}

export function History({ history, place }) {
  if (history.length < 2) {
    return null;
  }
  const predicted = history.flatMap(({ report: { predicted, rows_written: rows } }, x) =>
    predicted.load_seconds ? [{ x, y: rows / predicted.load_seconds }] : [],
  );
  const real = history.map(({ runId, report: { rows_per_second: y } }, x) => ({
    x,
    y,
    title: `${runId}: ${formatCount(y)} rows/s`,
    isLarge: runId === place.runId,
  }));
  const series = [
    { name: "predicted", className: "predicted", points: predicted },
    { name: "real", className: "real", points: real },
  ];
  return html`
    <${Section} title="The last ${history.length} loads of this task" note="rows a second">
      <${LineChart} series=${series} ends=${["oldest", "latest"]} notes=${["the larger dot is this load"]} />
    <//>`;
}
