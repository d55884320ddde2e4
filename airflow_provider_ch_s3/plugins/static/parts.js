// Parts and merges over time: what the cluster did after the commit.

import { Section, Table } from "./elements.js";
import { countOf, formatCount, formatSeconds } from "./format.js";
import { LineChart } from "./line_chart.js";
import { Fragment, h } from "./react.js";

const COLOURS = 6;

// node → [[Unix time, active parts, merges that had ended]]
function seriesOf(history, began, column, noun) {
  return Object.entries(history).map(([name, points], index) => ({
    name,
    className: `series-${index % COLOURS}`,
    points: points.map((point) => ({
      x: point[0],
      y: point[column],
      title: `${name}, ${formatSeconds(point[0] - began)}: ${countOf(point[column], noun)}`,
    })),
  }));
}

// Until there is a history, the log has the sum of all nodes.
function seriesOfLog(waits) {
  return [
    {
      name: "all nodes",
      className: "series-0",
      points: waits.map(({ at, parts }) => ({
        x: at,
        y: parts,
        title: `${formatSeconds(at - waits[0].at)}: ${countOf(parts, "part")}`,
      })),
    },
  ];
}

function describe({ result, waits }) {
  if (result) {
    return `settled: ${countOf(result.parts, "part")} on ${countOf(result.nodes.length, "node")}`;
  }
  const last = waits.at(-1);
  return last ? `${countOf(last.parts, "part")}, ${countOf(last.merges, "merge")} running` : "not looked at yet";
}

function Waits({ waits }) {
  const ends = ["0 s", formatSeconds(waits.at(-1).at - waits[0].at)];
  return h(LineChart, { series: seriesOfLog(waits), ends });
}

function Merges({ history }) {
  const times = Object.values(history).flatMap((points) => points.map(([at]) => at));
  const began = Math.min(...times);
  const ends = ["0 s", formatSeconds(Math.max(...times) - began)];
  return h(
    Fragment,
    null,
    h(LineChart, { series: seriesOf(history, began, 1, "part"), ends }),
    h("h4", null, "Merges that had ended"),
    h(LineChart, { series: seriesOf(history, began, 2, "merge"), ends }),
  );
}

// sensor: { result, waits } of the sensor that waits for the table
export function Parts({ sensor }) {
  const { result, waits } = sensor;
  const history = result?.history ?? {};
  const merges = Object.values(history).reduce((sum, points) => sum + points.at(-1)[2], 0);
  const note = result ? `${describe(sensor)}, ${countOf(merges, "merge")}` : describe(sensor);
  return h(
    Section,
    { title: "Parts over time", note },
    merges > 0 && h(Merges, { history }),
    !result && waits.length > 1 && h(Waits, { waits }),
  );
}

// Each node's parts as they are now, with the merges since the DAG run began.
export function PartsByNode({ result: { nodes, history = {} } }) {
  return h(
    Section,
    { title: "Nodes" },
    h(Table, {
      label: "Parts of each node",
      head: ["node", "parts", "in one partition", "rows", "merges"],
      rows: nodes.map((node) => [
        node.node,
        formatCount(node.active_parts),
        formatCount(node.max_partition_parts),
        formatCount(node.rows),
        formatCount(history[node.node]?.at(-1)[2] ?? 0),
      ]),
    }),
  );
}
