package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Each target decides a second time, in the plainest way, whether the request
// is good; the verifier must agree both ways. {sig} in a fuzzed header stands
// for the right signature, which no fuzzer would find.

func bareMAC(secret, message string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

func agree(t *testing.T, c Config, r *Request, want bool) {
	t.Helper()
	err := mustNew(t, c).Verify(r)
	if got := reasonOf(t, err) == ""; got != want {
		t.Errorf("%s: %q over %q: got %v, want verified %t", c.Type, r.Header, r.Body, err, want)
	}
}

func FuzzHMAC(f *testing.F) {
	for _, h := range []string{"", "p={sig}", "{sig}", "p=", "p=00, p={sig}", "p={sig},", "P={sig}", "p={sig}0", " p={sig} ", strings.Repeat(",", 15) + "p={sig}"} {
		f.Add(h, []byte("body"), false)
		f.Add(h, []byte{}, true)
	}
	f.Fuzz(func(t *testing.T, header string, body []byte, inBase64 bool) {
		c := Config{Type: "hmac", Header: "X-Sig", Prefix: "p=", Secrets: []string{"other", "secret"}}
		encode, sum := hex.EncodeToString, bareMAC("secret", string(body))
		if inBase64 {
			encode, c.Encoding = base64.StdEncoding.EncodeToString, "base64"
		}
		header = strings.ReplaceAll(header, "{sig}", encode(sum))
		items, want := strings.Split(header, ","), false
		for _, item := range items {
			item = strings.Trim(item, " \t")
			hexed := len(item) > 2 && item[:2] == "p=" && strings.EqualFold(item[2:], hex.EncodeToString(sum))
			want = want || (!inBase64 && hexed) || (inBase64 && item == "p="+encode(sum))
		}
		agree(t, c, &Request{Header: http.Header{"X-Sig": {header}}, Body: body}, want && len(items) <= maxCandidates)
	})
}

func FuzzTimestampedHMAC(f *testing.F) {
	for _, h := range []string{"", "t=1000,v1={sig}", "v1={sig}", "t=1000,v0={sig}", "t=1000,t=1000,v1={sig}", "t=+1000,v1={sig}", "t=99999999999999999999,v1={sig}", " t=1000 , v1={sig},v1=00", "t=,v1={sig}"} {
		f.Add(h, []byte("body"), int64(1000))
		f.Add(h, []byte{}, int64(1301))
	}
	digits := regexp.MustCompile(`^[0-9]{1,12}$`)
	f.Fuzz(func(t *testing.T, header string, body []byte, at int64) {
		at %= 1 << 50 // time.Unix cannot tell larger ones apart
		stamp, times := "", 0
		for _, item := range strings.Split(header, ",") {
			item = strings.Trim(item, " \t")
			if item == "t" || strings.HasPrefix(item, "t=") {
				stamp, times = strings.TrimPrefix(strings.TrimPrefix(item, "t"), "="), times+1
			}
		}
		sig := hex.EncodeToString(bareMAC("secret", stamp+"."+string(body)))
		header = strings.ReplaceAll(header, "{sig}", sig)
		found, proposed := false, 0
		for _, item := range strings.Split(header, ",") {
			item = strings.Trim(item, " \t")
			if item == "v1" || strings.HasPrefix(item, "v1=") {
				proposed++
				found = found || strings.EqualFold(item, "v1="+sig)
			}
		}
		signedAt, _ := strconv.ParseInt(stamp, 10, 64)
		want := found && proposed <= maxCandidates && times == 1 && digits.MatchString(stamp) &&
			at-signedAt <= 300 && signedAt-at <= 300
		c := Config{Type: "timestamped_hmac", Header: "X-Sig", Secrets: []string{"secret", "other"}}
		agree(t, c, &Request{Header: http.Header{"X-Sig": {header}}, Body: body, At: time.Unix(at, 0)}, want)
	})
}

func FuzzBasicAuth(f *testing.F) {
	for _, h := range []string{"", "Basic {sig}", "basic  {sig}", "Basic{sig}", "Bearer {sig}", "Basic {sig}=", "Basic dTpw\n", "Basic"} {
		f.Add(h, "user", "pass")
		f.Add(h, "u", "p:q")
	}
	f.Fuzz(func(t *testing.T, header, username, password string) {
		c := Config{Type: "basic_auth", Username: username, Password: password}
		if len(c.Validate()) > 0 {
			t.Skip()
		}
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(username, password)
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		header = strings.ReplaceAll(header, "{sig}", token)
		name, rest, found := strings.Cut(header, " ")
		want := found && strings.EqualFold(name, "Basic") && strings.TrimLeft(rest, " ") == token
		agree(t, c, &Request{Header: http.Header{"Authorization": {header}}}, want)
	})
}

func FuzzAPIKey(f *testing.F) {
	f.Add("key", "key", "old")
	f.Add("", "key", "old")
	f.Add("ke", "key", "old")
	f.Add("old", "key", "old")
	f.Fuzz(func(t *testing.T, sent, first, second string) {
		c := Config{Type: "api_key", Header: "X-Key", Values: []string{first, second}}
		if len(c.Validate()) > 0 {
			t.Skip()
		}
		agree(t, c, &Request{Header: http.Header{"X-Key": {sent}}}, sent != "" && (sent == first || sent == second))
	})
}
