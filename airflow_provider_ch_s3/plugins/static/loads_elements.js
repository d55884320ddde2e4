// The pieces that the sections of the page are made of, besides those of the tab "Load report".

import { countOf, formatSeconds } from "./format.js";
import { h } from "./react.js";

const DAY_SECONDS = 86400;

export function Failure({ text }) {
  return text ? h("p", { className: "outcome bad", role: "alert" }, text) : null;
}

// The moment as the list of `ch-s3 loads` has it.
export function formatTime(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
}

export function formatAge(seconds) {
  return seconds < 2 * DAY_SECONDS ? formatSeconds(seconds) : countOf(Math.floor(seconds / DAY_SECONDS), "day");
}

export function State({ load }) {
  const text = load.is_broken ? "commit broken off" : load.state;
  return h("span", { className: `state ${load.state}` }, text);
}

// Who loads: the task, with a link to its page, and below it the run.
export function Who({ load: { dag, run, task, map_index: index } }) {
  const [dagId, runId, taskId] = [dag, run, task].map(encodeURIComponent);
  const isMapped = index >= 0;
  const path = `dags/${dagId}/runs/${runId}/tasks/${taskId}${isMapped ? `/mapped/${index}` : ""}`;
  return h(
    "span",
    { className: "who" },
    h("a", { href: new URL(path, document.baseURI) }, `${dag}.${task}${isMapped ? `[${index}]` : ""}`),
    h("small", null, run),
  );
}
