// How a load went: rows over time, where the seconds went, what each node did, and the last loads of the task.
// Lines are plain SVG, in the colours of the page.

import { Bar, Section, TableSection } from "./elements.js";
import { countOf, formatBytes, formatCount, formatSeconds } from "./format.js";
import { html } from "./react.js";

const [WIDTH, HEIGHT, MARGIN] = [600, 120, 10];
const LONGEST_LEGEND = 8;
const STEPS = ["plan", "INSERT", "settle", "verify", "commit"];

// [[step, its seconds]], and their sum
export function secondsOf(report) {
  const ofStep = (name) => report[name === "INSERT" ? "seconds" : `${name}_seconds`] ?? 0;
  const steps = STEPS.map((name) => [name, ofStep(name)]).filter(([, seconds]) => seconds > 0);
  return [steps, steps.reduce((sum, [, seconds]) => sum + seconds, 0)];
}

// One bar, whose sum is the duration of the task: what is not the load's is Airflow's own.
export function Steps({ report, taskSeconds = 0 }) {
  const [own, ofLoad] = secondsOf(report);
  const rest = taskSeconds - ofLoad;
  // A try that has only concluded what an earlier try loaded is shorter than the load.
  const steps = rest > 0 ? [...own, ["Airflow", rest]] : own;
  const total = Math.max(ofLoad, taskSeconds);
  const bar = ([name, size]) => html`<span key=${name} className=${name} style=${{ flexGrow: size / total }} />`;
  const entry = ([name, seconds]) =>
    html`<li key=${name}><i className=${name} />${name} <b>${formatSeconds(seconds)}</b></li>`;
  return html`
    <${Section} title="Where the time went" note="${formatSeconds(total)} in all">
      <div className="steps" aria-hidden=${true}>${steps.map(bar)}</div>
      <ul className="legend">${steps.map(entry)}</ul>
    <//>`;
}

export function Nodes({ report }) {
  const shares = Object.entries(report.nodes).sort(([a], [b]) => a.localeCompare(b));
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
  return html`<${TableSection} title="Nodes" note=${skew} label="Each node's share" head=${head} rows=${cells} />`;
}

// While the load runs, and afterwards, as its log tells it, up to what the report says of its end.
export function Progress({ progress, report }) {
  const end = report?.query_id ? [[report.ended, report.rows_read]] : [];
  const [first] = progress;
  // The first look is later than the query: a task that waits in the triggerer may be seconds late.
  const begin = first?.seconds > 0 ? [[first.at - first.seconds, 0]] : [];
  const points = [...begin, ...progress.map(({ at, rows }) => [at, rows]), ...end];
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
    predicted?.load_seconds ? [{ x, y: rows / predicted.load_seconds }] : [],
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

function scale(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return (value) => (most > least ? from + ((value - least) * (to - from)) / (most - least) : to);
}

// series: [{ name, className, points: [{ x, y, title, isLarge }] }]; points without a title have no dot.
// ends: what the left and the right end of the chart are.
export function LineChart({ series, ends = [], notes = [] }) {
  const points = series.flatMap((one) => one.points);
  const x = scale(points.map((point) => point.x), MARGIN, WIDTH - MARGIN);
  const y = scale([0, 1, ...points.map((point) => point.y)], HEIGHT - MARGIN, MARGIN);
  const placed = series.map((one) => ({
    ...one,
    points: one.points.map((point) => ({ ...point, x: x(point.x), y: y(point.y) })),
  }));
  const dots = placed.flatMap((one) => one.points.filter(({ title }) => title).map((point) => [one, point]));
  const named = series.length > LONGEST_LEGEND ? [] : series;
  const line = ({ name, className, points }) => {
    const text = points.map((point) => `${point.x},${point.y}`).join(" ");
    return points.length > 1 && html`<polyline key=${name} className=${className} points=${text} />`;
  };
  const dot = ([{ className }, { x: cx, y: cy, title, isLarge }], key) => html`
    <circle ...${{ key, className, cx, cy, r: isLarge ? 5 : 2.5 }}><title>${title}</title></circle>`;
  const label = dots.map(([, { title }]) => title).join("; ");
  return html`
    <div className="chart">
      <small>${formatCount(Math.max(...points.map((point) => point.y)))}</small>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${label}>
        <line x1=${0} x2=${WIDTH} y1=${HEIGHT - MARGIN} y2=${HEIGHT - MARGIN} />
        ${placed.map(line)}
        ${dots.map(dot)}
      </svg>
      <small className="ends">${ends.map((text) => html`<span key=${text}>${text}</span>`)}</small>
      <ul className="legend">
        ${named.map(({ name, className }) => html`<li key=${name}><i className=${className} />${name}</li>`)}
        ${notes.map((note) => html`<li key=${note}>${note}</li>`)}
      </ul>
    </div>`;
}

// Numbers over time, from the first look on. series: [{ name, className, label, points: [[Unix time, number]] }];
// label: what the titles begin with.
export function TimeChart({ series, noun }) {
  const times = series.flatMap(({ points }) => points.map(([at]) => at));
  const began = Math.min(...times);
  const titled = series.map(({ label = "", points, ...one }) => ({
    ...one,
    points: points.map(([x, y]) => ({ x, y, title: `${label}${formatSeconds(x - began)}: ${countOf(y, noun)}` })),
  }));
  return html`<${LineChart} series=${titled} ends=${["0 s", formatSeconds(Math.max(...times) - began)]} />`;
}
