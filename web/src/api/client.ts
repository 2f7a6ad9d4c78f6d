import createClient from "openapi-fetch";
import { noteTime } from "./clock";
import { parse, stringify } from "./json";
import type { components, paths } from "./schema";
import { useSession } from "./session";

type Schemas = components["schemas"];
/** A record of the API by its name in the OpenAPI document. */
export type View<Name extends keyof Schemas> = Schemas[Name];

/** Where the server is mounted, with a slash at the end. */
export const ROOT = new URL("./", document.baseURI).href;

/** A refusal of the server, or that it could not be reached (`status` 0). */
export class Problem extends Error {
  override readonly name = "Problem";

  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly remedy = "",
    readonly field = "",
  ) {
    super(detail);
  }
}

export const api = createClient<paths>({
  baseUrl: ROOT.replace(/\/$/, ""),
  credentials: "same-origin",
  bodySerializer: (body) => stringify(body),
  querySerializer: { array: { style: "form", explode: true } },
});

api.use({
  async onResponse({ response }) {
    noteTime(response.headers.get("date"));
    if (!response.ok) throw await problemOf(response);
    if (response.status === 204 || !/\bjson\b/.test(response.headers.get("content-type") ?? "")) return undefined;
    return exactly(response);
  },
  onError({ error }) {
    if (error instanceof Problem || (error instanceof DOMException && error.name === "AbortError")) return undefined;
    return new Problem(0, "page.unreachable", "The server did not answer.", "Check that it runs and can be reached.");
  },
});

/** A response whose JSON keeps its digits. */
async function exactly(response: Response): Promise<Response> {
  const text = await response.text();
  const read = new Response(text, { status: response.status, headers: response.headers });
  read.headers.set("Content-Length", String(text.length)); // the client asks for json() only if it knows of a length
  read.json = async () => parse(text);
  return read;
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  let told: Partial<Record<"code" | "detail" | "remedy" | "field", string>> = {};
  try {
    told = JSON.parse(text);
  } catch {
    // A proxy answered, not the server.
  }
  const detail = told.detail ?? `The server answered ${response.status} ${response.statusText}`.trim();
  if (response.status === 401) useSession.setState({ isSignedOut: true });
  return new Problem(response.status, told.code ?? "page.unknown", detail, told.remedy, told.field);
}

/** The data of an answer; a refusal is thrown as `Problem`. */
export async function answer<T>(request: Promise<{ data?: T }>): Promise<T> {
  return (await request).data as T;
}
