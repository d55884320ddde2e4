// What the ledger says, from the plugin's own routes, with the rights of the user who looks at it.

const SENTENCES = {
  401: "You are not logged in any more: load the page again.",
  403: "Your login may not see plugins and task instances.",
};

async function describeFailure(response) {
  const { detail } = await response.json().catch(() => ({}));
  const said = typeof detail === "string" && detail;
  const other = `Airflow answered ${response.status}; the log of its API server says why.`;
  return SENTENCES[response.status] || said || other;
}

async function get(route, values) {
  const address = new URL(`../api/${route}`, import.meta.url);
  const given = Object.entries(values).filter(([, value]) => value);
  address.search = new URLSearchParams(given);
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  if (!response.ok) {
    throw new Error(await describeFailure(response));
  }
  return response.json();
}

// The id by which the ledger finds a load: the chunks of a load are attempts of their own, which have one id together.
export const ledgerIdOf = ({ chunks, query_id: id }) => (chunks > 1 ? id.replace(/-\d+-\d+-insert$/, "") : id);

// What the ids of all attempts begin with, up to the next clear of the task.
export const generationOf = ({ query_id: id }) => id.replace(/\d+-insert$/, "");

// The ledger is in the database of the table, unless the connection names another one.
export function ledgerOf(report, connection) {
  const [database, table] = report.table.split(".");
  return { conn_id: connection, database: table ? database : "" };
}

export const readLoads = (values) => get("loads", values);
export const readLoadAttempts = (values) => get("load_attempts", values);
export const readLoadFiles = (values) => get("load_files", values);
export const readLoadSettings = (values) => get("load_settings", values);
export const readTableFiles = (values) => get("table_files", values);
