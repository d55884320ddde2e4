// Numbers for people to read.

const DAY_SECONDS = 86400;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export const formatCount = (count) => Math.round(count).toLocaleString("en-US");

export function countOf(count, noun) {
  const text = formatCount(count);
  return `${text} ${noun}${text === "1" ? "" : "s"}`;
}

export function formatBytes(bytes) {
  const unit = BYTE_UNITS.findLastIndex((_, power) => power === 0 || bytes >= 1024 ** power);
  return `${(bytes / 1024 ** unit).toFixed(unit ? 1 : 0)} ${BYTE_UNITS[unit]}`;
}

// Values of settings have the unit that the name of the setting means.
const SETTING_UNITS = [
  [/bytes|buffer_size|memory_usage|free_memory/, (value) => formatBytes(value).replace(".0 ", " ")],
  [/_ms$/, (value) => `${formatCount(value)} ms`],
  [/(?:timeout|_time|_seconds)$/, (value) => `${value} s`],
];

export function formatSetting(name, value) {
  const number = typeof value === "boolean" || value === "" ? NaN : Number(value);
  if (!Number.isFinite(number) || number === 0) {
    return String(value);
  }
  const [, format] = SETTING_UNITS.find(([names]) => names.test(name)) ?? [];
  return format ? format(number) : number.toLocaleString("en-US");
}

export function formatSeconds(seconds) {
  if (seconds < 59.95) {
    return `${seconds.toFixed(seconds < 9.995 ? 2 : 1)} s`;
  }
  const whole = Math.round(seconds);
  const pad = (number) => String(number).padStart(2, "0");
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`
    : `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

// The zone that the user has chosen in Airflow, which keeps the choice in the browser.
export function zoneName() {
  try {
    const chosen = JSON.parse(globalThis.localStorage.getItem("timezone"));
    return new Intl.DateTimeFormat("en", { timeZone: chosen || "UTC" }).resolvedOptions().timeZone;
  } catch {
    return "UTC";
  }
}

// Swedes write times as ISO 8601 does.
export const formatTime = (seconds, timeZone = zoneName()) =>
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(seconds * 1000);

export const formatAge = (seconds) =>
  seconds < 2 * DAY_SECONDS ? formatSeconds(seconds) : countOf(Math.floor(seconds / DAY_SECONDS), "day");
