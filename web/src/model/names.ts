/** Names of nodes and runs, as people read them. */

const UUID = /^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;
const BRANCH = /~b\d+/g;

/** The id in full up to 24 characters. UUIDs begin with the time, so their last six characters tell them apart. */
export function shortId(id: string): string {
  if (UUID.test(id)) return `…${id.slice(-6)}`;
  return id.length <= 24 ? id : `${id.slice(0, 12)}…${id.slice(-11)}`;
}

/** The name as the code has it, without the mark of its branch. */
export const plainName = (name: string): string => name.replace(BRANCH, "");

export interface NamedParts {
  /** The groups that hold it, outermost first. */
  groups: string[];
  /** The last part, with its key or number. */
  own: string;
  /** The last part without its key or number. */
  base: string;
  /** The key of one of several: `northwind` of `fetch[northwind]`, `2` of `fetch#2`, `17` of `read/17`. */
  key: string;
}

const KEYED = /^(.*?)(?:\[(.*)\]|#(\d+))$/s;

/** The parts of a node's name. Groups are divided by slashes, except those in a key. */
export function partsOf(name: string): NamedParts {
  const parts = split(plainName(name));
  const own = parts.at(-1) ?? name;
  const groups = parts.slice(0, -1);
  if (/^\d+$/.test(own) && groups.length) return { groups, own, base: groups.at(-1) ?? "", key: own };
  const found = KEYED.exec(own);
  return { groups, own, base: found?.[1] ?? own, key: found?.[2] ?? found?.[3] ?? "" };
}

function split(name: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < name.length; at++) {
    if (name[at] === "[") depth += 1;
    else if (name[at] === "]") depth -= 1;
    else if (name[at] === "/" && depth <= 0) {
      parts.push(name.slice(from, at));
      from = at + 1;
    }
  }
  parts.push(name.slice(from));
  return parts.filter((part) => part !== "");
}

/** The name cut in its middle to about `length` characters. The last part, with its key, stays. */
export function cutName(name: string, length = 36): string {
  const plain = plainName(name);
  if (plain.length <= length) return plain;
  const { groups, own } = partsOf(plain);
  const first = groups[0];
  if (first === undefined) return plain;
  if (groups.length > 1 || first.length + own.length >= length) {
    const space = length - own.length - 3;
    return space >= 3 ? `${first.slice(0, space)}${first.length > space ? "" : "/"}…/${own}` : `…/${own}`;
  }
  return plain;
}
