package receive

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook/verify"
)

// plainHeader has the signature of the body alone. The signature covers no time, so
// a captured request could be replayed at any time. The receiver prints whether it
// matches but does not accept a request because of it.
const plainHeader = "X-Eventhook-Signature"

// signature verifies requests with one secret or public key.
type signature struct {
	name     string          // for the output
	standard verify.Verifier // of Standard Webhooks, decides
	plain    verify.Verifier // of plainHeader; nil for a public key
}

// newSignatures returns a signature for each secret and each public key. Its errors
// do not contain a secret.
func newSignatures(secrets, keys []string, tolerance int) (list []signature, err error) {
	for i, text := range secrets {
		s := signature{name: numbered("secret", i, len(secrets))}
		c := verify.Config{Type: "standard_webhooks", Secrets: []string{text}, ToleranceSeconds: &tolerance}
		if !strings.HasPrefix(text, "whsec_") {
			c.SecretEncoding = "text" // a secret that the gateway did not generate
		}
		if s.standard, err = verify.New(c, nil); err != nil {
			return nil, fmt.Errorf("the %s is not valid: want base64 after whsec_", s.name)
		}
		if s.plain, err = verify.New(verify.Config{Type: "hmac", Header: plainHeader, Prefix: "sha256=", Secrets: []string{text}}, nil); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	for i, text := range keys {
		s := signature{name: numbered("public key", i, len(keys))}
		s.standard, err = verify.New(verify.Config{Type: "standard_webhooks", PublicKeys: []string{text}, ToleranceSeconds: &tolerance}, nil)
		if err != nil {
			return nil, fmt.Errorf("the %s is not an ed25519 key: want base64 after whpk_", s.name)
		}
		list = append(list, s)
	}
	return list, nil
}

// numbered returns a name, with its number if there are several.
func numbered(name string, i, of int) string {
	if of == 1 {
		return name
	}
	return fmt.Sprintf("%s %d", name, i+1)
}

// result is the result of the verification of a request.
type result struct {
	verifiedBy   string // name of the signature that matched; "" if none did
	failure      string // why no signature matched
	plainFailure string // why the signature in plainHeader did not match; "" if it did or is absent
}

// check tries the signatures in their order. If none matches, the failure is that of
// the signature with the highest verify.Progress.
func check(ctx context.Context, list []signature, r *verify.Request) (found result) {
	if len(list) == 0 {
		return result{failure: "no secret and no public key is configured"}
	}
	furthest := -1
	for _, s := range list {
		err := s.standard.Verify(ctx, r)
		if err == nil {
			found.verifiedBy, found.failure = s.name, ""
			break
		}
		if far := verify.Progress(err); far > furthest {
			found.failure, furthest = verify.RefusalText(err), far
		}
	}
	found.plainFailure = checkPlain(ctx, list, r)
	return found
}

// checkPlain verifies plainHeader with each secret.
func checkPlain(ctx context.Context, list []signature, r *verify.Request) (failure string) {
	if len(r.Header[http.CanonicalHeaderKey(plainHeader)]) == 0 {
		return ""
	}
	for _, s := range list {
		if s.plain == nil {
			continue
		}
		err := s.plain.Verify(ctx, r)
		if err == nil {
			return ""
		}
		failure = verify.RefusalText(err)
	}
	return failure
}
