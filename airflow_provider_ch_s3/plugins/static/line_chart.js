// Lines over time or over loads: plain SVG, in the colours of the page.

import { formatCount } from "./format.js";
import { h } from "./react.js";

const [WIDTH, HEIGHT, MARGIN] = [600, 120, 10];
const LONGEST_LEGEND = 8;

function scale(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return (value) => (most > least ? from + ((value - least) * (to - from)) / (most - least) : to);
}

function Line({ className, points }) {
  return points.length > 1
    ? h("polyline", { className, points: points.map(({ x, y }) => `${x},${y}`).join(" ") })
    : null;
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
  return h(
    "div",
    { className: "chart" },
    h("small", null, formatCount(Math.max(...points.map((point) => point.y)))),
    h(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": dots.map(([, { title }]) => title).join("; "),
      },
      h("line", { x1: 0, x2: WIDTH, y1: HEIGHT - MARGIN, y2: HEIGHT - MARGIN }),
      placed.map(({ name, className, points }) => h(Line, { key: name, className, points })),
      dots.map(([{ className }, { x, y, title, isLarge }], index) =>
        h("circle", { key: index, className, cx: x, cy: y, r: isLarge ? 5 : 2.5 }, h("title", null, title)),
      ),
    ),
    h("small", { className: "ends" }, ends.map((text) => h("span", { key: text }, text))),
    h(
      "ul",
      { className: "legend" },
      named.map(({ name, className }) => h("li", { key: name }, h("i", { className }), name)),
      notes.map((note) => h("li", { key: note }, note)),
    ),
  );
}
