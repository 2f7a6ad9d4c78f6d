import { KeyRound, LogIn } from "lucide-react";
import { type FormEvent, useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { answer, api, Problem, ROOT } from "@/api/client";
import { isOwn, returnLater } from "@/api/return";
import { Logo } from "@/shell/Logo";
import { Button } from "@/ui/Button";
import { Field, INPUT } from "@/ui/Field";
import { useOnce } from "@/ui/once";
import { usePageTitle } from "@/ui/PageHeading";

const RETURN = "outlast.return";
const RETURN_MS = 15 * 60_000;

/** Sign in with a one-time link or its code. A press spends it: opening the page does not. */
export default function SignInPage() {
  usePageTitle("Sign in");
  const [params] = useSearchParams();
  const [code, setCode] = useState("");
  const [hasLink, setLink] = useState(false);
  const [refusal, setRefusal] = useState("");
  const asked = params.get("to");
  const provider = document.querySelector<HTMLMetaElement>('meta[name="outlast-oidc"]')?.content;
  useEffect(() => {
    if (asked) localStorage.setItem(RETURN, JSON.stringify({ to: asked, at: Date.now() }));
    const given = codeIn(location.hash);
    if (!given) return;
    setCode(given);
    setLink(true);
    history.replaceState(history.state, "", location.pathname + location.search); // nobody reads it from the address
  }, [asked]);
  const [signIn, isBusy] = useOnce(async () => {
    const text = codeIn(code) || code.trim();
    if (!text) return setRefusal("Paste the link or the code.");
    try {
      await answer(api.POST("/api/v1/session", { body: { code: text } }));
    } catch (error) {
      setLink(false);
      setCode("");
      return setRefusal(textOf(error));
    }
    const to = asked ?? remembered();
    localStorage.removeItem(RETURN);
    location.replace(ROOT + (isOwn(to) ? to.slice(1) : ""));
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn();
  };
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <form
        onSubmit={submit}
        className="flex w-full max-w-105 flex-col gap-4 rounded-panel border border-line bg-surface p-6"
      >
        <p className="flex items-center gap-2 font-semibold">
          <Logo /> Outlast
        </p>
        <h1 className="text-title font-semibold">Sign in</h1>
        {hasLink ? (
          <p className="flex items-start gap-2">
            <KeyRound size={16} aria-hidden className="mt-0.5 flex-none" />
            Your link is ready. It works once: signing in spends it.
          </p>
        ) : (
          <Field
            label="One-time link or code"
            error={refusal || undefined}
            help={
              <>
                <code>outlast token link</code> prints one on the machine of the server.
              </>
            }
          >
            {(attributes) => (
              <input
                {...attributes}
                value={code}
                onChange={(event) => setCode(event.target.value)}
                autoComplete="one-time-code"
                spellCheck={false}
                className={INPUT}
              />
            )}
          </Field>
        )}
        <Button type="submit" look="primary" busy={isBusy} busyText="Signing in…" autoFocus={hasLink}>
          <LogIn size={16} aria-hidden /> Sign in
        </Button>
        {provider ? (
          <Button asChild>
            <a href={ROOT + provider} onClick={() => isOwn(asked) && returnLater(asked)}>
              Sign in with your provider
            </a>
          </Button>
        ) : null}
        {isOwn(asked) && asked !== "/" ? (
          <p className="text-meta break-words text-text-2">
            Then you are back at <code>{asked}</code>.
          </p>
        ) : null}
      </form>
    </main>
  );
}

/** The code in a link or in what was pasted. */
function codeIn(text: string): string {
  return /oli_[0-9a-f]{16}_[A-Za-z0-9_-]{43}/.exec(text)?.[0] ?? "";
}

function remembered(): string | null {
  try {
    const { to, at } = JSON.parse(localStorage.getItem(RETURN) ?? "null") as { to: string; at: number };
    return Date.now() - at < RETURN_MS ? to : null;
  } catch {
    return null;
  }
}

function textOf(error: unknown): string {
  if (error instanceof Problem && error.status === 401)
    return "This link is unknown, expired or already used. Ask for another one.";
  return error instanceof Error ? error.message : String(error);
}
