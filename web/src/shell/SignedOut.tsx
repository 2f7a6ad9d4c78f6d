import { Lock } from "lucide-react";
import { useEffect, useState } from "react";
import { useLocation } from "react-router";
import { answer, api, ROOT } from "@/api/client";
import { keys, queries } from "@/api/queries";
import { useSession } from "@/api/session";
import { retryNow } from "@/api/stream";
import { Button } from "@/ui/Button";

/** The session ended: this stands in the place of everything, and what was loaded is forgotten. */
export function SignedOut() {
  const { pathname, search } = useLocation();
  const [hadSession] = useState(() => queries.getQueryData(keys.session) !== undefined);
  useEffect(() => {
    queries.clear();
    const look = async () => {
      if (document.hidden) return;
      await answer(api.GET("/api/v1/session")); // another tab may have signed in
      useSession.setState({ isSignedOut: false });
      retryNow();
    };
    const lookQuietly = () => void look().catch(() => {});
    document.addEventListener("visibilitychange", lookQuietly);
    return () => document.removeEventListener("visibilitychange", lookQuietly);
  }, []);
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <div className="flex max-w-105 flex-col items-start gap-3 rounded-panel border border-line bg-surface p-6">
        <Lock size={20} aria-hidden className="text-text-2" />
        <h1 className="text-head font-semibold">You are signed out.</h1>
        <p className="text-text-2">
          {hadSession ? "Your session has ended or was revoked." : "This page shows nothing without a session."} After
          signing in you are back at this address.
        </p>
        <Button look="primary" asChild>
          <a href={`${ROOT}sign-in?to=${encodeURIComponent(pathname + search)}`}>Sign in</a>
        </Button>
      </div>
    </main>
  );
}
