// Airflow's own React: the page brings none.
export const { createElement: h, Fragment, useEffect, useRef, useState } = globalThis.React;
