import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { ROOT } from "@/api/client";
import { parse, stringify } from "@/api/json";
import { bytes, counted } from "@/model/durations";
import { type Preview, previewOf, typeOf } from "@/model/preview";
import { blobOf, oneLine, type Blob as Stored } from "@/model/values";
import { Button } from "@/ui/Button";
import { JsonView, TextView } from "@/ui/JsonView";
import { Segments } from "@/ui/Tabs";

/** Blobs of up to so many bytes are read at once; of larger ones the head, or all of it on request if it is media. */
const READ_AT_ONCE = 1_000_000;
const HEAD = 64_000;
const MOST_MEDIA = 50_000_000;

/** A value of a user: as what it is if it is an image, a sound, a text or a table, and as JSON. */
export function ValueView({ value, run, name }: { value: unknown; run: string; name: string }) {
  const blob = blobOf(value);
  return blob ? <StoredValue blob={blob} run={run} name={name} /> : <Shown value={value} name={name} />;
}

function Shown({ value, name }: { value: unknown; name: string }) {
  const preview = useMemo(() => previewOf(value), [value]);
  const [isJson, setJson] = useState(false);
  if (!preview) return isShort(value) ? <Short value={value} /> : <JsonView value={value} name={`${name}.json`} />;
  return (
    <div className="flex flex-col items-start gap-2">
      <Segments
        label="Show as"
        value={isJson ? "json" : "preview"}
        onChange={(chosen) => setJson(chosen === "json")}
        choices={[
          { value: "preview", text: { image: "Image", audio: "Sound", text: "Text", table: "Table" }[preview.kind] },
          { value: "json", text: "JSON" },
        ]}
      />
      {isJson ? (
        <JsonView value={value} name={`${name}.json`} className="w-full" />
      ) : (
        <PreviewView preview={preview} name={name} />
      )}
    </div>
  );
}

const isShort = (value: unknown): boolean => !oneLine(value, 100).isCut;

function Short({ value }: { value: unknown }) {
  return <code className="rounded-control bg-code px-1.5 py-0.5 break-words">{stringify(value)}</code>;
}

function PreviewView({ preview, name }: { preview: Preview; name: string }) {
  switch (preview.kind) {
    case "image":
    case "audio":
      return <Media preview={preview} name={name} />;
    case "text":
      return (
        <div className="w-full">
          {preview.hint ? (
            <p className="mb-1 text-meta text-text-2">{preview.hint.toUpperCase()}, shown as text.</p>
          ) : null}
          <TextView text={preview.text} name={`${name}.txt`} />
        </div>
      );
    case "table":
      return <Table preview={preview} name={name} />;
  }
}

function Media({ preview, name }: { preview: Extract<Preview, { kind: "image" | "audio" }>; name: string }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([preview.data], { type: preview.type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [preview]);
  if (!url) return null;
  return (
    <figure className="flex max-w-full flex-col items-start gap-2">
      {preview.kind === "image" ? (
        <img src={url} alt={name} className="max-h-100 max-w-full rounded-control border border-line bg-sunken" />
      ) : (
        // biome-ignore lint/a11y/useMediaCaption: a value of a run has no captions
        <audio controls src={url} className="max-w-full" />
      )}
      <figcaption className="flex items-center gap-3 text-meta text-text-2">
        {preview.type}, {bytes(preview.data.length)}
        <a href={url} download={`${name}.${preview.type.split("/")[1]}`} className="link">
          Download
        </a>
      </figcaption>
    </figure>
  );
}

function Table({ preview, name }: { preview: Extract<Preview, { kind: "table" }>; name: string }) {
  const { columns, rows, all } = preview;
  return (
    <div className="max-h-120 max-w-full overflow-auto rounded-control border border-line" tabIndex={0}>
      <table className="text-code" aria-label={name}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column}
                scope="col"
                className="sticky top-0 border-b border-line bg-surface px-3 py-1.5 text-left font-medium whitespace-nowrap"
              >
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have an order and no ids
            <tr key={i}>
              {columns.map((column, at) => (
                <td key={column} className="max-w-80 truncate border-b border-line px-3 py-1 font-mono">
                  {typeof row[at] === "string" ? row[at] : row[at] === undefined ? "" : stringify(row[at])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <p className="px-3 py-1.5 text-meta text-text-2">
        {rows.length < all ? `The first ${rows.length} of ${counted(all, "row")}.` : `${counted(all, "row")}.`}
      </p>
    </div>
  );
}

/** The value of a blob, read when it is shown. A large one is not read whole. */
function StoredValue({ blob, run, name }: { blob: Stored; run: string; name: string }) {
  const url = `${ROOT}api/v1/runs/${encodeURIComponent(run)}/blobs/${blob.hash}`;
  const [isWhole, setWhole] = useState(blob.size <= READ_AT_ONCE);
  const { data, error } = useQuery({
    queryKey: ["blob", blob.hash, isWhole],
    queryFn: async ({ signal }) => {
      const headers: Record<string, string> = isWhole ? {} : { Range: `bytes=0-${HEAD - 1}` };
      const response = await fetch(url, { headers, signal, credentials: "same-origin" });
      if (!response.ok) throw new Error(`The server answered ${response.status}.`);
      const text = new TextDecoder().decode(await response.arrayBuffer());
      return isWhole ? { value: parse(text, true) } : { head: text };
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
  const isMedia = data && "head" in data && previewOf(mediaHead(data.head))?.kind;
  return (
    <div className="flex flex-col items-start gap-2">
      <p className="flex flex-wrap items-center gap-3 text-text-2">
        {bytes(blob.size)}, stored beside the log.
        {data && "head" in data ? ` The first ${bytes(HEAD)} are shown.` : ""}
        <Button small asChild>
          <a href={url} download={`${name}.json`}>
            <Download size={14} aria-hidden /> Download
          </a>
        </Button>
        {!isWhole && (isMedia === "image" || isMedia === "audio") && blob.size <= MOST_MEDIA ? (
          <Button small onClick={() => setWhole(true)}>
            Load the {isMedia === "image" ? "image" : "sound"}
          </Button>
        ) : null}
      </p>
      {error ? <p className="text-fail">{error.message}</p> : null}
      {data && "head" in data ? (
        <pre
          tabIndex={0}
          className="max-h-80 w-full overflow-auto rounded-control bg-code px-3 py-2 break-all whitespace-pre-wrap"
        >
          {data.head}
        </pre>
      ) : null}
      {data && "value" in data ? <Shown value={data.value} name={name} /> : null}
    </div>
  );
}

/** Enough of the base64 text in the head of a blob to tell what it is. */
function mediaHead(head: string): string {
  const text = /"([A-Za-z0-9+/]{64,})/.exec(head)?.[1] ?? "";
  return text.slice(0, 64);
}

/** What a value is, beside it. */
export function TypeNote({ value }: { value: unknown }) {
  return <span className="text-meta font-normal whitespace-nowrap text-text-3">{typeOf(value)}</span>;
}
