/**
 * JSON whose numbers keep their digits. A JavaScript number holds integers up to 2^53 and about 16 digits; what it cannot
 * hold is read as `Exact`, and written as it was.
 *
 * Numbers inside values of users also keep their form: `1.0` and `1e3` are not `1` and `1000`, since the log tells them
 * apart. The fields of the API itself are plain numbers.
 */
export class Exact {
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  valueOf(): number {
    return Number(this.text);
  }
}

export type Json = null | boolean | number | string | Exact | Json[] | { [key: string]: Json };

/** The fields of views and events that hold values of users. */
const VALUES = new Set([
  "answer",
  "carried",
  "checkpoint",
  "config",
  "data",
  "default",
  "feedback",
  "inputs",
  "new",
  "old",
  "output",
  "params",
  "result",
  "schema",
  "then",
  "value",
]);

/** A number that may lose something. It may also stand inside a string: then the slow path reads it, to the same result. */
const SUSPECT = /[:,[\s]-?(?:\d{16}|\d+\.\d{15}|\d+\.\d*0[,\]}\s]|\d+(?:\.\d+)?[eE]|-0)|^-?[\d.eE+-]+$/;

/** Parse text. With `isValue` the whole text is a value of a user. */
export function parse(text: string, isValue = false): Json {
  return SUSPECT.test(text) ? new Reader(text).read(isValue) : (JSON.parse(text) as Json);
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  read(isValue: boolean): Json {
    const found = this.value(isValue);
    this.skip();
    if (this.at < this.text.length) this.fail();
    return found;
  }

  private fail(): never {
    throw new SyntaxError(`This is not JSON: unexpected ${this.text[this.at] ?? "end"} at character ${this.at + 1}.`);
  }

  private skip(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      this.at += 1;
    }
  }

  private value(isValue: boolean): Json {
    this.skip();
    switch (this.text[this.at]) {
      case "{":
        return this.object(isValue);
      case "[":
        return this.array(isValue);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number(isValue);
    }
  }

  private word<T extends Json>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail();
    this.at += word.length;
    return value;
  }

  private object(isValue: boolean): Json {
    const found: { [key: string]: Json } = {};
    this.at += 1;
    this.skip();
    if (this.text[this.at] === "}") {
      this.at += 1;
      return found;
    }
    for (;;) {
      this.skip();
      if (this.text[this.at] !== '"') this.fail();
      const key = this.string();
      this.skip();
      if (this.text[this.at] !== ":") this.fail();
      this.at += 1;
      const value = this.value(isValue || VALUES.has(key));
      if (key === "__proto__") Object.defineProperty(found, key, { value, enumerable: true, configurable: true });
      else found[key] = value;
      this.skip();
      const next = this.text[this.at];
      if (next !== "," && next !== "}") this.fail();
      this.at += 1;
      if (next === "}") return found;
    }
  }

  private array(isValue: boolean): Json[] {
    const found: Json[] = [];
    this.at += 1;
    this.skip();
    if (this.text[this.at] === "]") {
      this.at += 1;
      return found;
    }
    for (;;) {
      found.push(this.value(isValue));
      this.skip();
      const next = this.text[this.at];
      if (next !== "," && next !== "]") this.fail();
      this.at += 1;
      if (next === "]") return found;
    }
  }

  private string(): string {
    let end = this.at + 1;
    for (; ; end += 1) {
      const code = this.text.charCodeAt(end);
      if (code === 34) break;
      if (code === 92) end += 1;
      else if (Number.isNaN(code)) {
        this.at = this.text.length;
        this.fail();
      }
    }
    const found = JSON.parse(this.text.slice(this.at, end + 1)) as string;
    this.at = end + 1;
    return found;
  }

  private number(isValue: boolean): number | Exact {
    NUMBER.lastIndex = this.at;
    const literal = NUMBER.exec(this.text)?.[0];
    if (literal === undefined) this.fail();
    this.at += literal.length;
    const number = Number(literal);
    if (String(number) === literal) return number;
    const isInteger = /^-?\d+$/.test(literal);
    return isValue || (isInteger && !Number.isSafeInteger(number)) ? new Exact(literal) : number;
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Whether a text is a JSON number. */
export function isNumber(text: string): boolean {
  NUMBER.lastIndex = 0;
  return NUMBER.exec(text)?.[0] === text;
}

/** The number that a text denotes: a plain one if nothing is lost by it. */
export function numberOf(text: string): number | Exact {
  const number = Number(text);
  return String(number) === text ? number : new Exact(text);
}

/** Write a value as JSON; `parse` reads the same from it. Fields that are undefined are left out. */
export function stringify(value: unknown, indent = 0): string {
  return write(value, indent, "");
}

function write(value: unknown, indent: number, margin: string): string {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = margin + " ".repeat(indent);
  const isArray = Array.isArray(value);
  const parts = isArray
    ? value.map((each) => write(each, indent, inner))
    : Object.entries(value)
        .filter(([, each]) => each !== undefined)
        .map(([key, each]) => `${JSON.stringify(key)}:${indent ? " " : ""}${write(each, indent, inner)}`);
  const [open, close] = isArray ? "[]" : "{}";
  if (!parts.length) return `${open}${close}`;
  return indent
    ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}`
    : `${open}${parts.join(",")}${close}`;
}
