// Whether a load was undone since: only the ledger knows.

import { countOf, formatTime, zoneName } from "./format.js";
import { readLoadAttempts } from "./ledger_api.js";

// The id by which the ledger finds a load: the chunks of a load are attempts of their own, which have one id together.
export const ledgerIdOf = ({ chunks, query_id: id }) => (chunks > 1 ? id.replace(/-\d+-\d+-insert$/, "") : id);

// The ledger is in the database of the table, unless the connection names another one.
export function ledgerOf(report, connection) {
  const [database, table] = report.table.split(".");
  return { conn_id: connection, database: table ? database : "" };
}

// A sentence; "" while the table has the rows, and for whoever may not see the ledger.
export async function readUndone(report, connection) {
  const asked = { load: ledgerIdOf(report), ...ledgerOf(report, connection) };
  const { attempts } = await readLoadAttempts(asked).catch(() => ({ attempts: [] }));
  // A task that was cleared has attempts of its earlier generations.
  const generation = report.query_id.replace(/\d+-insert$/, "");
  const loaded = attempts.filter(({ query_id: id, state }) =>
    id.startsWith(generation) && ["committed", "undone"].includes(state));
  const undone = loaded.filter(({ state }) => state === "undone");
  if (!undone.length) {
    return "";
  }
  const at = formatTime(Math.max(...undone.map(({ ended }) => ended)));
  const what = undone.length < loaded.length ? `${countOf(undone.length, "chunk")} of ${loaded.length} undone` : "Undone";
  return `${what} at ${at} ${zoneName()}: the table no longer has these rows.`;
}
