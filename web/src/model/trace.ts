/** Recorded tracebacks: the frames of the user's code. */

import type { Failure } from "./events";

export interface Frame {
  /** The last part of the path. */
  file: string;
  path: string;
  line: number;
  name: string;
  code: string;
}

const FRAME = /^ *File "([^"\n]+)", line (\d+), in ([^\n]+)\n?(?: +([^\n]*))?/gm;
const ENGINE =
  /[\\/](?:site-packages|dist-packages)[\\/]|[\\/]outlast[\\/](?:functions|execution|engine|values)[\\/]|[\\/]lib[\\/]python3|^</;

/** The frames of a traceback, outermost first; those of the engine and of libraries are left out, unless there are no others. */
export function framesOf(trace: string): Frame[] {
  const all = [...trace.matchAll(FRAME)].map(([, path = "", line = "", name = "", code = ""]) => ({
    file: path.split(/[\\/]/).at(-1) ?? path,
    path,
    line: Number(line),
    name,
    code: /^[~^ ]*$/.test(code) ? "" : code.trim(),
  }));
  const own = all.filter((frame) => !ENGINE.test(frame.path));
  return own.length ? own : all;
}

/** `shop.MailServerDown` of `shop:MailServerDown`, `RunDiverged` of `outlast.run_diverged`. */
export function errorName(kind: string): string {
  const code = /^outlast\.([a-z_]+)$/.exec(kind)?.[1];
  return code
    ? code
        .split("_")
        .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
        .join("")
    : kind.replace(":", ".");
}

/** The name of the error without its module. */
export const shortErrorName = (kind: string): string => errorName(kind).split(".").at(-1) ?? kind;

/** `relay.internal:587 refused the connection`, or the name if there is no message; on one line. */
export function messageOf(error: Failure): string {
  return (error.message ?? "").trim().split("\n")[0] || errorName(error.kind);
}
