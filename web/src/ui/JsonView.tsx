import { Download } from "lucide-react";
import { useMemo } from "react";
import { stringify } from "@/api/json";
import { bytes } from "@/model/durations";
import { Button } from "./Button";

const HEAD = 64_000;

/**
 * A value as indented JSON, its digits as they are. Of a large one the head is shown, with its size and a download. `name` is
 * the name of that file.
 */
export function JsonView({
  value,
  name = "value.json",
  className = "",
}: {
  value: unknown;
  name?: string;
  className?: string;
}) {
  const text = useMemo(() => stringify(value, 2), [value]);
  return <TextView text={text} name={name} type="application/json" className={className} />;
}

/** A text as it is; of a large one the head, with its size and a download. */
export function TextView({
  text,
  name,
  type = "text/plain",
  className = "",
}: {
  text: string;
  name: string;
  type?: string;
  className?: string;
}) {
  const isLarge = text.length > HEAD;
  return (
    <div className={`min-w-0 ${className}`}>
      <pre
        tabIndex={0}
        className="max-h-120 overflow-auto rounded-control bg-code px-3 py-2 break-words whitespace-pre-wrap"
      >
        {isLarge ? text.slice(0, HEAD) : text}
      </pre>
      {isLarge ? (
        <p className="mt-2 flex flex-wrap items-center gap-3 text-text-2">
          {bytes(new Blob([text]).size)}. The first {bytes(HEAD)} are shown.
          <Button small onClick={() => download(text, name, type)}>
            <Download size={14} aria-hidden /> Download
          </Button>
        </p>
      ) : null}
    </div>
  );
}

/** Save a text as a file. */
export function download(text: string, name: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
