// Whether a load was undone since: only the ledger knows.

import { countOf, formatTime, zoneName } from "./format.js";
import { generationOf, ledgerIdOf, ledgerOf, readLoadAttempts } from "./ledger_api.js";

// A sentence; "" while the table has the rows, and for whoever may not see the ledger.
export async function readUndone(report, connection) {
  const asked = { load: ledgerIdOf(report), ...ledgerOf(report, connection) };
  const { attempts } = await readLoadAttempts(asked).catch(() => ({ attempts: [] }));
  // A task that was cleared has attempts of its earlier generations.
  const loaded = attempts.filter((one) =>
    generationOf(one) === generationOf(report) && ["committed", "undone"].includes(one.state));
  const undone = loaded.filter(({ state }) => state === "undone");
  if (!undone.length) {
    return "";
  }
  const at = formatTime(Math.max(...undone.map(({ ended }) => ended)));
  const what = undone.length < loaded.length ? `${countOf(undone.length, "chunk")} of ${loaded.length} undone` : "Undone";
  return `${what} at ${at} ${zoneName()}: the table no longer has these rows.`;
}
