import { PageHeading } from "@/ui/PageHeading";

export default function SignInPage() {
  return <PageHeading title="Sign in" />;
}
