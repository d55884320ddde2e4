// Where the seconds went, what each node did, and how fast the last loads of the task were.

import { Bar, Section, Table } from "./elements.js";
import { formatBytes, formatCount, formatSeconds } from "./format.js";
import { h } from "./react.js";

const STEPS = [
  ["plan", "plan_seconds"],
  ["INSERT", "seconds"],
  ["settle", "settle_seconds"],
  ["verify", "verify_seconds"],
  ["commit", "commit_seconds"],
];
const [WIDTH, HEIGHT, MARGIN] = [600, 120, 10];

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
      head: ["node", "rows", "files", "peak memory", "parts"],
      rows: shares.map(([name, node]) => [
        name,
        h(Bar, { value: node.rows_written, most }),
        formatCount(node.files),
        formatBytes(node.peak_memory_bytes),
        formatCount(node.initial_parts),
      ]),
    }),
  );
}

function predictedRate({ rows_written: rows, predicted }) {
  return predicted.load_seconds ? rows / predicted.load_seconds : null;
}

function Line({ points, className }) {
  const known = points.filter(([, y]) => y !== null);
  const text = known.map((point) => point.join(",")).join(" ");
  return known.length > 1 ? h("polyline", { className, points: text }) : null;
}

export function History({ history, place }) {
  if (history.length < 2) {
    return null;
  }
  const rates = history.map(({ report }) => report.rows_per_second);
  const expected = history.map(({ report }) => predictedRate(report));
  const most = Math.max(...rates, ...expected.filter((rate) => rate !== null), 1);
  const x = (index) => MARGIN + (index * (WIDTH - 2 * MARGIN)) / (history.length - 1);
  const y = (rate) => (rate === null ? null : HEIGHT - MARGIN - (rate * (HEIGHT - 2 * MARGIN)) / most);
  const describe = (index) => `${history[index].runId}: ${formatCount(rates[index])} rows/s`;
  return h(
    Section,
    { title: `The last ${history.length} loads of this task`, note: `rows a second, up to ${formatCount(most)}` },
    h(
      "svg",
      {
        className: "history",
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": rates.map((_, i) => describe(i)).join("; "),
      },
      h("line", { x1: 0, x2: WIDTH, y1: HEIGHT - MARGIN, y2: HEIGHT - MARGIN }),
      h(Line, { className: "predicted", points: expected.map((rate, i) => [x(i), y(rate)]) }),
      h(Line, { className: "real", points: rates.map((rate, i) => [x(i), y(rate)]) }),
      rates.map((rate, index) =>
        h(
          "circle",
          { key: index, cx: x(index), cy: y(rate), r: history[index].runId === place.runId ? 5 : 3 },
          h("title", null, describe(index)),
        ),
      ),
    ),
    h(
      "ul",
      { className: "legend" },
      h("li", null, h("i", { className: "real" }), "real"),
      h("li", null, h("i", { className: "predicted" }), "predicted"),
      h("li", null, "the larger dot is this load"),
    ),
  );
}
