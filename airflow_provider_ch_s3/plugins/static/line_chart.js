// Lines over time or over loads: plain SVG, in the colours of the page.

import { countOf, formatCount, formatSeconds } from "./format.js";
import { html } from "./react.js";

const [WIDTH, HEIGHT, MARGIN] = [600, 120, 10];
const LONGEST_LEGEND = 8;

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
