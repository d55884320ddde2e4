// Calls functions of the pages' scripts under node. Each line of the standard input is a JSON array: path of a module,
// name of what it exports, arguments, and [[end of an address, [{ status, body }]]] of what `fetch` gets, one after the
// other (404 from all others; the last one stays). Each line of the standard output is { returned } or { error }; what a component returns is its HTML.

import { createInterface } from "node:readline";

let answers = [];
globalThis.fetch = async (address) => {
  const [, given] = answers.find(([end]) => String(address).endsWith(end)) ?? [, [{ status: 404 }]];
  const { status = 200, body } = given.length > 1 ? given.shift() : given[0];
  return { status, ok: status < 400, json: async () => body };
};
globalThis.document = { baseURI: "http://airflow/", createElement: () => ({}), head: { append: (link) => link.onload() } };

// React, as far as one look at a page needs it: no state changes, and no effect runs.
function createElement(type, properties, ...children) {
  if (typeof type === "function") {
    return type({ ...properties, children });
  }
  const attributes = Object.entries(properties ?? {})
    .filter(([, value]) => !["function", "undefined"].includes(typeof value) && value !== false)
    .map(([name, value]) => ` ${name}="${value?.constructor === Object ? JSON.stringify(value) : value}"`);
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return `<${type}${attributes.join("")}>${shown.join("")}</${type}>`;
}
globalThis.React = {
  Component: class {},
  createElement,
  useEffect: () => {},
  useRef: () => ({}),
  useState: (first) => [typeof first === "function" ? first() : first, () => {}],
};

for await (const line of createInterface({ input: process.stdin })) {
  const [module, name, given, answered] = JSON.parse(line);
  answers = answered;
  try {
    const returned = await (await import(module))[name](...given);
    console.log(JSON.stringify({ returned: returned ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
