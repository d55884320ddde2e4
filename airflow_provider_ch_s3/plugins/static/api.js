// What the tab shows, from Airflow's REST API, with the rights of the user who looks at it.

import { readFailure } from "./failure.js";

const HISTORY_LENGTH = 20;
const MOST_TASKS = 100;
const RETRY_MILLISECONDS = 500;
const ENDED = ["success", "failed", "skipped", "removed", "upstream_failed"];
// A skipped load returns its report, too.
const REPORTED = ["success", "skipped"];
// Tasks are told by the arguments that they alone have together, so those of subclasses are found, too.
const LOAD = ["clickhouse_conn_id", "source", "table"];
const SENSOR = ["clickhouse_conn_id", "table", "max_parts", "max_parts_per_partition"];
const FAILED = ["failed", "up_for_retry"];
const QUERY = /ch-s3-[0-9a-f]+-\d+-\d+-insert/;
const LINE = /^(.*) \[ch-s3 (\{.*\})\]$/s;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// A busy server of Airflow answers 500 at times; the page of a task that is over reads once.
async function get(path, triesLeft = 2) {
  const response = await fetch(new URL(`api/v2/${path}`, document.baseURI), {
    headers: { Accept: "application/json" },
  });
  if (response.status >= 500 && triesLeft) {
    await pause(RETRY_MILLISECONDS);
    return get(path, triesLeft - 1);
  }
  if (response.status === 404) {
    return null;
  }
  if (!response.ok) {
    throw new Error(`Airflow answered ${response.status} to ${path}`);
  }
  return response.json();
}

// What a user may not see, or Airflow no longer has, is left out of the tab.
const getIfAllowed = (path) => get(path).catch(() => null);

const runPath = ({ dagId, runId }) => `dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`;
const taskPath = (place) => `${runPath(place)}/taskInstances/${encodeURIComponent(place.taskId)}`;

// The index of an unmapped task is undefined, or "-1".
const indexOf = ({ mapIndex }) => Number(mapIndex ?? -1);

// Rows of the table itself, without the ones that were rejected, or went into materialized views.
const rowsAdded = ({ partitions, rows_written: written }) =>
  partitions ? Object.values(partitions).reduce((sum, rows) => sum + rows, 0) : written;

async function readResult(place) {
  const path = `${taskPath(place)}/xcomEntries/return_value?deserialize=true&map_index=${indexOf(place)}`;
  return (await getIfAllowed(path))?.value;
}

async function readReport(place) {
  const value = await readResult(place);
  const isReport = value && typeof value === "object" && "query_id" in value;
  return isReport ? { ...value, rows_added: rowsAdded(value) } : null;
}

// What the log of a task tells while there is no result yet. Lines end with their facts, which common/text.py adds:
// `62%, 480 rows, …, 1 node at work [ch-s3 {"rows": 480, "done": 0.62}]`.
// The text for people, and the facts; no facts in other lines, whatever they quote.
function parse(line) {
  const [, text, facts] = LINE.exec(line) ?? [];
  try {
    return { text, ...JSON.parse(facts) };
  } catch {
    return {};
  }
}

function readFacts(log, name) {
  return log
    .map(({ timestamp, event }) => ({ at: Date.parse(timestamp) / 1000, ...parse(event) }))
    .filter((facts) => typeof facts[name] === "number");
}

// The plan in a sentence, once there is one.
export const readPlan = (log) => readFacts(log, "planned_seconds").at(-1)?.text;

// The id of the last query that the log names: an INSERT of the load.
export const readQuery = (log) => log.map(({ event }) => QUERY.exec(event)?.[0]).findLast(Boolean);

// [{ at: Unix time, rows: of all chunks so far, done: share of the work, if it is known, text }]
export const readProgress = (log) => readFacts(log, "rows");

// [{ at: Unix time, parts, merges: that are running, waiting: for what; '' if settled }]
export const readParts = (log) => readFacts(log, "parts");

// The task's own checks: of each what was found last.
export const readChecks = (log) =>
  Object.values(Object.fromEntries(readFacts(log, "check").map((one) => [one.name, one])));

function readError({ state }, log) {
  const error = log.findLast((event) => event.error_detail?.length)?.error_detail[0];
  if (!error || !FAILED.includes(state)) {
    return "";
  }
  // Messages with a code need no class to be understood; KeyError: 'x' does.
  return readFailure(error.exc_value).code ? error.exc_value : `${error.exc_type}: ${error.exc_value}`;
}

async function readLog(place, { try_number: number }) {
  const log = await getIfAllowed(`${taskPath(place)}/logs/${number}?map_index=${indexOf(place)}`);
  return Array.isArray(log?.content) ? log.content : [];
}

export async function readHistory(place) {
  const everyRun = taskPath({ ...place, runId: "~" });
  const query = `xcom_key=return_value&map_index=${indexOf(place)}&order_by=-timestamp&limit=${HISTORY_LENGTH}`;
  const entries = (await getIfAllowed(`${everyRun}/xcomEntries?${query}`))?.xcom_entries ?? [];
  const loads = await Promise.all(
    entries.map(async ({ run_id: runId }) => ({ runId, report: await readReport({ ...place, runId }) })),
  );
  return loads.filter(({ report }) => report?.query_id).reverse();
}

const hasFields = (task, names) => names.every((name) => name in (task?.rendered_fields ?? {}));

async function readSensor(place, task) {
  const [result, log] = await Promise.all([readResult(place), readLog(place, task)]);
  return { result: result?.nodes ? result : null, waits: readParts(log), error: readError(task, log) };
}

// What the sensor of the same run saw of the table; null without one.
export async function readPartsAfter(place, table) {
  const { dagId, runId } = place;
  const path = `${runPath(place)}/taskInstances?limit=${MOST_TASKS}`;
  const tasks = (await getIfAllowed(path))?.task_instances ?? [];
  const task = tasks.find((one) => hasFields(one, SENSOR) && one.rendered_fields.table === table);
  const isOver = task ? ENDED.includes(task.state) : tasks.every(({ state }) => ENDED.includes(state));
  const at = task && { dagId, runId, taskId: task.task_id, mapIndex: task.map_index };
  return { isOver, sensor: task ? await readSensor(at, task) : null };
}

export async function readTask(place) {
  const index = indexOf(place);
  const task = await get(`${taskPath(place)}${index >= 0 ? `/${index}` : ""}`);
  const found = {
    isLoad: hasFields(task, LOAD),
    isSensor: hasFields(task, SENSOR),
    seconds: task?.duration ?? 0,
    isOver: ENDED.includes(task?.state ?? "removed"),
    state: task?.state ?? "not started",
    fields: task?.rendered_fields ?? {},
    links: {},
  };
  if (found.isSensor) {
    return { ...found, sensor: await readSensor(place, task) };
  }
  if (!found.isLoad) {
    return found;
  }
  const [report, links, log] = await Promise.all([
    REPORTED.includes(task.state) ? readReport(place) : null,
    getIfAllowed(`${taskPath(place)}/links?map_index=${index}`),
    readLog(place, task),
  ]);
  return {
    ...found,
    report,
    checks: report?.row_checks ?? readChecks(log),
    links: links?.extra_links ?? {},
    planned: readPlan(log),
    query: readQuery(log),
    progress: readProgress(log),
    error: readError(task, log),
  };
}
