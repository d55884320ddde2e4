// What the tab shows, from Airflow's REST API, with the rights of the user who looks at it.

const HISTORY_LENGTH = 20;
const ENDED = ["success", "failed", "skipped", "removed", "upstream_failed"];
const FAILED = ["failed", "up_for_retry"];
// A skipped load returns its report, too.
const REPORTED = ["success", "skipped"];

async function get(path) {
  const response = await fetch(new URL(`api/v2/${path}`, document.baseURI), {
    headers: { Accept: "application/json" },
  });
  if (response.status === 404) {
    return null;
  }
  if (!response.ok) {
    throw new Error(`Airflow answered ${response.status} to ${path}`);
  }
  return response.json();
}

// What a user may not see, or Airflow no longer has, is left out of the tab.
function getIfAllowed(path) {
  return get(path).catch(() => null);
}

function taskPath({ dagId, runId, taskId }) {
  const [dag, run, task] = [dagId, runId, taskId].map(encodeURIComponent);
  return `dags/${dag}/dagRuns/${run}/taskInstances/${task}`;
}

// The index of an unmapped task is undefined, or "-1".
function indexOf({ mapIndex }) {
  return Number(mapIndex ?? -1);
}

// Rows of the table itself, without those that were rejected, or went into materialized views.
function rowsAdded({ partitions, rows_written: written }) {
  return partitions ? Object.values(partitions).reduce((sum, rows) => sum + rows, 0) : written;
}

async function readReport(place) {
  const path = `${taskPath(place)}/xcomEntries/return_value?deserialize=true&map_index=${indexOf(place)}`;
  const value = (await getIfAllowed(path))?.value;
  const isReport = value && typeof value === "object" && "query_id" in value;
  return isReport ? { ...value, rows_added: rowsAdded(value) } : null;
}

async function readError(place, task) {
  const log = await getIfAllowed(`${taskPath(place)}/logs/${task.try_number}?map_index=${indexOf(place)}`);
  const events = (log?.content ?? []).filter((event) => event.error_detail?.length);
  const error = events.at(-1)?.error_detail[0];
  return error ? `${error.exc_type}: ${error.exc_value}` : "";
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

// A load is told by the arguments that it alone has together, so subclasses are loads, too.
function isLoad(task) {
  return ["clickhouse_conn_id", "source", "table"].every((name) => name in (task?.rendered_fields ?? {}));
}

export async function readLoad(place) {
  const isMapped = indexOf(place) >= 0;
  const task = await get(`${taskPath(place)}${isMapped ? `/${indexOf(place)}` : ""}`);
  if (!isLoad(task)) {
    return { isLoad: false, isOver: ENDED.includes(task?.state ?? "removed") };
  }
  const [report, links, error] = await Promise.all([
    REPORTED.includes(task.state) ? readReport(place) : null,
    getIfAllowed(`${taskPath(place)}/links?map_index=${indexOf(place)}`),
    FAILED.includes(task.state) ? readError(place, task) : "",
  ]);
  return {
    isLoad: true,
    isOver: ENDED.includes(task.state),
    state: task.state ?? "not started",
    fields: task.rendered_fields,
    report,
    links: links?.extra_links ?? {},
    error,
  };
}
