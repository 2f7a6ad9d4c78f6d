import { useLive } from "@/api/live";

/** Whether the page is live: a filled dot, or a hollow ring. */
export function LiveDot() {
  const isLive = useLive((live) => live.state.is === "live");
  return (
    <span role="status" className="flex items-center gap-1.5 text-meta whitespace-nowrap text-text-2">
      <span
        aria-hidden
        className={`size-2 rounded-full ${isLive ? "bg-done-bar" : "border-2 border-idle-bar bg-transparent"}`}
      />
      {isLive ? "Live" : "Not live"}
    </span>
  );
}
