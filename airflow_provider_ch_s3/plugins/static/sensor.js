// The tab of a sensor that waits for parts: what it waits for, and how the parts became few.

import { Header } from "./header.js";
import { Parts, PartsByNode } from "./parts.js";
import { countOf } from "./format.js";
import { h } from "./react.js";

function Outcome({ task: { isOver, error, sensor } }) {
  if (error) {
    return h("pre", { className: "outcome bad", role: "alert" }, error);
  }
  const { result, waits } = sensor;
  if (result) {
    const text = `Settled: ${countOf(result.parts, "part")} on ${countOf(result.nodes.length, "node")}, ${countOf(result.rows, "row")}.`;
    return h("p", { className: "outcome good" }, text);
  }
  const waiting = waits.at(-1)?.waiting;
  const open = waiting ? `Waiting for ${waiting}` : "The first look at the parts is not there yet.";
  return h("p", { className: "outcome" }, isOver ? "No result: the task returned none." : open);
}

export function SensorReport({ task }) {
  return h(
    "article",
    { className: "ch-s3-report" },
    h(Header, { load: task }),
    h(Outcome, { task }),
    h(Parts, { sensor: task.sensor }),
    task.sensor.result && h(PartsByNode, { result: task.sensor.result }),
  );
}
