package receive

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook/verify"
)

// plainHeader carries the signature of the body alone, keyed with the secret's
// text. It has no time, so a request that is seen once could be sent for ever:
// it is told, and decides nothing.
const plainHeader = "X-Eventhook-Signature"

// signature is one way in which requests may be signed.
type signature struct {
	name     string          // for people, as it was given
	standard verify.Verifier // decides
	plain    verify.Verifier // nil of a public key
}

// newSignatures makes one for each secret and each public key. No error repeats
// a secret.
func newSignatures(secrets, keys []string, tolerance int) (list []signature, err error) {
	for i, text := range secrets {
		s := signature{name: numbered("secret", i, len(secrets))}
		c := verify.Config{Type: "standard_webhooks", Secrets: []string{text}, ToleranceSeconds: &tolerance}
		if !strings.HasPrefix(text, "whsec_") {
			c.SecretEncoding = "text" // that somebody has brought along
		}
		if s.standard, err = verify.New(c, nil); err != nil {
			return nil, fmt.Errorf("the %s is not base64 behind whsec_", s.name)
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
			return nil, fmt.Errorf("the %s is none of ed25519: want whpk_ and base64", s.name)
		}
		list = append(list, s)
	}
	return list, nil
}

// numbered names a thing, by its place if there are several.
func numbered(name string, i, of int) string {
	if of == 1 {
		return name
	}
	return fmt.Sprintf("%s %d", name, i+1)
}

// judgement is what the signatures of a request say.
type judgement struct {
	by    string // what verified it; "" if nothing did
	why   string // why nothing did
	plain string // why the plain signature is none of a secret; "" if it is, or cannot be told
}

// judge tries each signature. Of those that fail, the one that came furthest
// says why.
func judge(ctx context.Context, list []signature, r *verify.Request) (j judgement) {
	if len(list) == 0 {
		return judgement{why: "no secret and no public key was given"}
	}
	furthest := -1
	for _, s := range list {
		err := s.standard.Verify(ctx, r)
		if err == nil {
			j.by, j.why = s.name, ""
			break
		}
		if far := verify.Progress(err); far > furthest {
			j.why, furthest = verify.RefusalText(err), far
		}
	}
	j.plain = judgePlain(ctx, list, r)
	return j
}

func judgePlain(ctx context.Context, list []signature, r *verify.Request) (why string) {
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
		why = verify.RefusalText(err)
	}
	return why
}
