// How a load went: rows over time, where the seconds went, what each node did, and the last loads of the task.

import { Bar, Section, Table } from "./elements.js";
import { countOf, formatBytes, formatCount, formatSeconds } from "./format.js";
import { LineChart } from "./line_chart.js";
import { h } from "./react.js";

const STEPS = [
  ["plan", "plan_seconds"],
  ["INSERT", "seconds"],
  ["settle", "settle_seconds"],
  ["verify", "verify_seconds"],
  ["commit", "commit_seconds"],
];

export function Steps({ report }) {
  const steps = STEPS.map(([name, field]) => ({ name, seconds: report[field] ?? 0 })).filter((one) => one.seconds > 0);
  const total = steps.reduce((sum, one) => sum + one.seconds, 0);
  return h(
    Section,
    { title: "Seconds", note: `${formatSeconds(total)} in all` },
    h(
      "div",
      { className: "steps", "aria-hidden": true },
      steps.map(({ name, seconds }) => h("span", { key: name, className: name, style: { flexGrow: seconds / total } })),
    ),
    h(
      "ul",
      { className: "legend" },
      steps.map(({ name, seconds }) =>
        h("li", { key: name }, h("i", { className: name }), `${name} `, h("b", null, formatSeconds(seconds))),
      ),
    ),
  );
}

export function Nodes({ nodes }) {
  const shares = Object.entries(nodes).sort(([a], [b]) => a.localeCompare(b));
  const rows = shares.map(([, node]) => node.rows_written);
  const [most, mean] = [Math.max(...rows), rows.reduce((sum, one) => sum + one, 0) / rows.length];
  const skew = rows.length > 1 && mean ? `the largest share is ${(most / mean).toFixed(2)} times the mean` : "";
  return h(
    Section,
    { title: "Nodes", note: skew },
    h(Table, {
      label: "Each node's share",
      head: ["node", "rows", "files", "read", "requests", "peak memory", "parts"],
      rows: shares.map(([name, node]) => [
        name,
        h(Bar, { value: node.rows_written, most }),
        formatCount(node.files),
        formatBytes(node.read_bytes ?? 0),
        formatCount(node.requests ?? 0),
        formatBytes(node.peak_memory_bytes),
        formatCount(node.initial_parts),
      ]),
    }),
  );
}

function predictedRate({ rows_written: rows, predicted }) {
  return predicted.load_seconds ? rows / predicted.load_seconds : null;
}

// While the load runs, and afterwards, as its log tells it.
export function Progress({ progress }) {
  if (progress.length < 2) {
    return null;
  }
  const began = progress[0].at;
  const title = (at, rows) => `${formatSeconds(at - began)}: ${countOf(rows, "row")}`;
  const points = progress.map(({ at, rows }) => ({ x: at, y: rows, title: title(at, rows) }));
  const last = progress.at(-1);
  return h(
    Section,
    { title: "Rows over time", note: title(last.at, last.rows) },
    h(LineChart, {
      series: [{ name: "rows read", className: "real", points }],
      ends: ["0 s", formatSeconds(last.at - began)],
    }),
  );
}

export function History({ history, place }) {
  if (history.length < 2) {
    return null;
  }
  const rates = history.map(({ report }) => report.rows_per_second);
  const expected = history.map(({ report }, x) => ({ x, y: predictedRate(report) })).filter(({ y }) => y !== null);
  const real = history.map(({ runId }, x) => ({
    x,
    y: rates[x],
    title: `${runId}: ${formatCount(rates[x])} rows/s`,
    isLarge: runId === place.runId,
  }));
  return h(
    Section,
    { title: `The last ${history.length} loads of this task`, note: "rows a second" },
    h(LineChart, {
      series: [
        { name: "predicted", className: "predicted", points: expected },
        { name: "real", className: "real", points: real },
      ],
      ends: ["oldest", "latest"],
      notes: ["the larger dot is this load"],
    }),
  );
}
