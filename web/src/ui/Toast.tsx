import { Check, CircleAlert, Info, X } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { create } from "zustand";
import { Problem } from "@/api/client";
import { Button } from "./Button";

export interface ToastText {
  tone?: "done" | "fail" | "note";
  title: string;
  text?: ReactNode;
  /** A button at the right. */
  action?: { name: string; onPress: () => void };
}

interface Shown extends ToastText {
  id: number;
}

const useToasts = create<{ shown: Shown[] }>(() => ({ shown: [] }));
let last = 0;

/** Say what an action did. What stays true, such as a lost connection, belongs into the page instead. */
export function toast(text: ToastText): void {
  last += 1;
  const id = last;
  useToasts.setState(({ shown }) => ({ shown: [...shown.slice(-3), { ...text, id }] }));
}

/** Say that an action was refused, with the sentence of the server and what to do. */
export function toastProblem(title: string, error: unknown): void {
  const text = error instanceof Problem ? `${error.detail} ${error.remedy}`.trim() : String(error);
  toast({ tone: "fail", title, text });
}

const close = (id: number) => useToasts.setState(({ shown }) => ({ shown: shown.filter((each) => each.id !== id) }));

export function Toasts() {
  const shown = useToasts((toasts) => toasts.shown);
  return (
    <section
      aria-label="Messages"
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 z-50 flex w-[calc(100vw-32px)] max-w-105 flex-col gap-2 max-md:bottom-18"
    >
      {shown.map((each) => (
        <ToastPanel key={each.id} toast={each} />
      ))}
    </section>
  );
}

const LOOKS = {
  done: { hue: "hue-done", icon: Check },
  fail: { hue: "hue-fail", icon: CircleAlert },
  note: { hue: "hue-idle", icon: Info },
};

function ToastPanel({ toast: { id, tone = "done", title, text, action } }: { toast: Shown }) {
  const [isRead, setRead] = useState(false);
  const { hue, icon: Icon } = LOOKS[tone];
  useEffect(() => {
    if (isRead) return;
    const timer = setTimeout(() => close(id), tone === "fail" ? 15_000 : 6_000);
    return () => clearTimeout(timer);
  }, [id, isRead, tone]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: hovering keeps it, and does nothing else
    <div
      onMouseEnter={() => setRead(true)}
      onMouseLeave={() => setRead(false)}
      className={`pointer-events-auto flex animate-appear items-start gap-2 rounded-control border border-line border-l-3 border-l-hue-bar bg-surface p-3 shadow-float ${hue}`}
    >
      <Icon size={16} aria-hidden className="mt-0.5 flex-none text-hue" />
      <div className="min-w-0 flex-1">
        <p className="font-semibold break-words">{title}</p>
        {text ? <div className="break-words text-text-2">{text}</div> : null}
      </div>
      {action ? (
        <Button look="flat" small onClick={action.onPress}>
          {action.name}
        </Button>
      ) : null}
      <Button look="flat" small square aria-label="Close this message" onClick={() => close(id)}>
        <X size={14} aria-hidden />
      </Button>
    </div>
  );
}
