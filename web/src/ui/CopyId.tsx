import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { shortId } from "@/model/names";

/** An id, shortened to what tells it from others; a press copies all of it. */
export function CopyId({
  id,
  shown = shortId(id),
  className = "",
}: {
  id: string;
  shown?: string;
  className?: string;
}) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const Icon = isCopied ? Check : Copy;
  return (
    <span className={`inline-flex items-center gap-1 ${className}`}>
      <code title={id} className="min-w-0 break-words">
        {shown}
      </code>
      <button
        type="button"
        aria-label={isCopied ? "Copied" : `Copy ${id}`}
        onClick={async () => setCopied(await copy(id))}
        className="-m-1 rounded-control p-1 text-text-3 hover:bg-hover hover:text-text"
      >
        <Icon size={14} aria-hidden />
      </button>
    </span>
  );
}

/** Copy a text; false if the browser refuses. Without a secure context there is only the old way. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}
