// The files of a load, which the ledger knows: read when somebody wants to see them.

import { Section } from "./elements.js";
import { countOf } from "./format.js";
import { LoadFiles } from "./loads_files.js";
import { h, useState } from "./react.js";

export function Files({ report, connection }) {
  const [isShown, setIsShown] = useState(false);
  if (!isShown) {
    return h(
      Section,
      { title: "Files", note: countOf(report.files_listed ?? report.files_read, "file") },
      h("button", { type: "button", onClick: () => setIsShown(true) }, "Show the files"),
    );
  }
  // The chunks of a load are attempts of their own, which the id of the load names together.
  const load = report.chunks > 1 ? report.query_id.replace(/-\d+-\d+-insert$/, "") : report.query_id;
  // The ledger is in the database of the table, unless the connection names another one.
  const [database, table] = report.table.split(".");
  return h(LoadFiles, { load, where: { conn_id: connection, database: table ? database : "" } });
}
