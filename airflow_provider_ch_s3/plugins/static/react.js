// Airflow's own React: the page brings none. Elements are HTML in template strings: html`<b>${text}</b>`.

import htm from "./htm.js";

export const { Component, useEffect, useRef, useState } = globalThis.React;
export const html = htm.bind(globalThis.React.createElement);
