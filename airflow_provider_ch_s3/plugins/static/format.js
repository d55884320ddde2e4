// Numbers for people to read.

const BYTE_UNITS = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];

export function formatCount(count) {
  return Math.round(count).toLocaleString("en-US");
}

export function countOf(count, noun) {
  const text = formatCount(count);
  return `${text} ${noun}${text === "1" ? "" : "s"}`;
}

export function formatBytes(bytes) {
  const [size, name] = BYTE_UNITS.find(([size]) => bytes >= size) ?? [1, "B"];
  return `${(bytes / size).toFixed(size === 1 ? 0 : 1)} ${name}`;
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
