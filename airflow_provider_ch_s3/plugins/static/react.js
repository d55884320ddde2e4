// Airflow's own React: the page brings none.
export const { Component, createElement: h, Fragment, useEffect, useRef, useState } = globalThis.React;
