// Parts and merges over time: what the cluster did after the commit; and the tab of the sensor that waits for it.

import { TimeChart } from "./charts.js";
import { Section, TableSection } from "./elements.js";
import { LoadFailure } from "./failure.js";
import { countOf, formatCount } from "./format.js";
import { Header } from "./header.js";
import { html } from "./react.js";

const COLOURS = 6;

const describeParts = ({ parts, nodes }) => `${countOf(parts, "part")} on ${countOf(nodes.length, "node")}`;

function describe({ result, waits }) {
  if (result) {
    return `settled: ${describeParts(result)}`;
  }
  const last = waits.at(-1);
  return last ? `${countOf(last.parts, "part")}, ${countOf(last.merges, "merge")} running` : "not looked at yet";
}

// history: node → [[Unix time, active parts, merges that had ended]]
function Merges({ history }) {
  const seriesOf = (column) =>
    Object.entries(history).map(([name, points], index) => ({
      name,
      className: `series-${index % COLOURS}`,
      label: `${name}, `,
      points: points.map((point) => [point[0], point[column]]),
    }));
  return html`
    <div>
      <${TimeChart} series=${seriesOf(1)} noun="part" />
      <h4>Merges that had ended</h4>
      <${TimeChart} series=${seriesOf(2)} noun="merge" />
    </div>`;
}

// sensor: { result, waits } of the sensor that waits for the table
export function Parts({ sensor }) {
  const { result, waits } = sensor;
  const history = result?.history ?? {};
  const merges = Object.values(history).reduce((sum, points) => sum + points.at(-1)[2], 0);
  // Until there is a history, the log has the sum of all nodes.
  const sum = [{ name: "all nodes", className: "series-0", points: waits.map(({ at, parts }) => [at, parts]) }];
  const note = result ? `${describe(sensor)}, ${countOf(merges, "merge")}` : describe(sensor);
  const hasChart = merges > 0 || (!result && waits.length > 1);
  if (!hasChart) {
    return html`<p className="aside">Parts <small>${note}</small></p>`;
  }
  return html`
    <${Section} title="Parts over time" note=${note}>
      ${merges > 0 ? html`<${Merges} history=${history} />` : html`<${TimeChart} series=${sum} noun="part" />`}
    <//>`;
}

// Each node's parts as they are now, with the merges since the DAG run began.
function PartsByNode({ result: { nodes, history = {} } }) {
  const rows = nodes.map((node) => [
    node.node,
    formatCount(node.active_parts),
    formatCount(node.max_partition_parts),
    formatCount(node.rows),
    formatCount(history[node.node]?.at(-1)[2] ?? 0),
  ]);
  const head = ["node", "parts", "in one partition", "rows", "merges"];
  return html`<${TableSection} title="Nodes" label="Parts of each node" head=${head} rows=${rows} />`;
}

function Outcome({ isOver, sensor: { result, waits, error } }) {
  if (error) {
    return html`<${LoadFailure} text=${error} />`;
  }
  if (result) {
    const text = `Settled: ${describeParts(result)}, ${countOf(result.rows, "row")}.`;
    return html`<p className="outcome good">${text}</p>`;
  }
  const waiting = waits.at(-1)?.waiting;
  const open = waiting ? `Waiting for ${waiting}` : "The first look at the parts is not there yet.";
  return html`<p className="outcome">${isOver ? "No result: the task returned none." : open}</p>`;
}

export function SensorReport({ task }) {
  const { sensor } = task;
  return html`
    <article className="ch-s3-report">
      <${Header} load=${task} />
      <${Outcome} isOver=${task.isOver} sensor=${sensor} />
      <${Parts} sensor=${sensor} />
      ${sensor.result && html`<${PartsByNode} result=${sensor.result} />`}
    </article>`;
}
