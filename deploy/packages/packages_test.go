// Package packages_test builds the files of a release and installs them.
package packages_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/internal/pgtest"
)

const (
	top         = "../.."
	testVersion = "v1.2.3"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// needs skips the test without a program. In CI as root it fails the test, since make installs
// the program.
func needs(t *testing.T, program, hint string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		if path, err = filepath.Abs(path); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" && os.Getuid() == 0 {
		t.Fatalf("%s: %v; %s", program, err, hint)
	}
	t.Skipf("%s: %v; %s", program, err, hint)
	return ""
}

func TestMain(m *testing.M) { pgtest.Main(m, func() { _ = os.RemoveAll(made.dir) }) }

// made is the release of linux and this machine's architecture, built once for all tests.
var made struct {
	once sync.Once
	dir  string
	err  error
}

func buildRelease(checkout, out, nfpm string) error {
	cmd := exec.Command(filepath.Join(checkout, "scripts/release"), out, "linux/"+runtime.GOARCH)
	cmd.Env = append(os.Environ(), "VERSION="+testVersion, "COMMIT="+testCommit, "SOURCE_DATE_EPOCH=1700000000", "NFPM="+nfpm)
	if raw, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/release: %w\n%s", err, raw)
	}
	return nil
}

// release returns the folder with the files of a release.
func release(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a release is built on Linux")
	}
	nfpm := needs(t, top+"/.cache/bin/nfpm-v2.41.0", "`make test` installs it")
	made.once.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "release-"); made.err == nil {
			made.err = buildRelease(top, made.dir, nfpm)
		}
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	return made.dir
}

// only returns the one file of a release that a pattern matches.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is valid
	if len(found) != 1 {
		t.Fatalf("%s: got %q, want one file", pattern, found)
	}
	return found[0]
}

// program returns the path of the released program.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := only(t, release(t), "*.tar.gz")
	if out, err := exec.Command("tar", "-C", dir, "--strip-components=1", "-xzf", archive).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	for _, name := range []string{"LICENSE", "NOTICES.txt", "README.md", "CHANGELOG.md", "example.yaml", "eventhook.service", "eventhook-agent.service", "agent.env"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s of the archive: %v", name, err)
		}
	}
	return filepath.Join(dir, "eventhook")
}

// Two folders, two builds: each file has the same bytes.
func TestReleasesAreReproducible(t *testing.T) {
	first, second := release(t), t.TempDir()
	checkout := filepath.Join(t.TempDir(), "elsewhere", "src")
	copyCheckout(t, checkout)
	nfpm, err := filepath.Abs(top + "/.cache/bin/nfpm-v2.41.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := buildRelease(checkout, second, nfpm); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(first, "*")) // the pattern is valid
	if len(names) != 5 {
		t.Errorf("got %q, want an archive, a deb, an rpm, a bill of materials and SHA256SUMS", names)
	}
	for _, path := range names {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(second, filepath.Base(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: two builds have different bytes, %v", filepath.Base(path), err)
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = second
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 4 {
		t.Errorf("sha256sum: got %s, %v; want four files", out, err)
	}
}

// copyCheckout copies the files of this checkout that git knows or would add.
func copyCheckout(t *testing.T, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	copying := exec.Command("bash", "-o", "pipefail", "-c",
		`git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -cf - | tar -C "$1" -xf -`, "copy", to)
	copying.Dir = top
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("copy the checkout: %v\n%s", err, out)
	}
}

// The package is installed, started as its unit would start it, removed and purged, in a copy of
// this machine's file system.
func TestTheDebIsInstalledStartedAndRemoved(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to install a package")
	}
	for _, name := range []string{"dpkg", "apt-get"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	needs(t, "systemd-analyze", "`make servers` installs it")
	page := t.TempDir()
	for i, block := range pageBlocks(t) {
		text := strings.ReplaceAll(block, "amd64", runtime.GOARCH)
		if err := os.WriteFile(filepath.Join(page, fmt.Sprintf("page%d.sh", i+1)), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inCopy(t, "deb", only(t, release(t), "*.deb"), os.Args[0], page)
}

// inCopy runs testdata/install.sh in namespaces of its own.
func inCopy(t *testing.T, args ...string) {
	t.Helper()
	namespaces := []string{"--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private"}
	probe := append(namespaces[:len(namespaces):len(namespaces)], "bash", "-c",
		`d=$(mktemp -d) && mount -t tmpfs tmpfs $d && mkdir $d/u $d/w $d/r && mount -t overlay overlay -o lowerdir=/,upperdir=$d/u,workdir=$d/w $d/r`)
	if out, err := exec.Command("unshare", probe...).CombinedOutput(); err != nil {
		t.Skipf("this machine allows no overlay of its file system: %v %s", err, out)
	}
	command := append(append(namespaces, "bash", "testdata/install.sh"), args...)
	out, err := exec.CommandContext(t.Context(), "unshare", command...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "== passed\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestTheArchiveIsInstalled(t *testing.T) {
	home := t.TempDir()
	files, _ := filepath.Glob(filepath.Join(release(t), "*")) // the pattern is valid
	if out, err := exec.Command("cp", append(files, home)...).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	commands := strings.ReplaceAll(pageBlocks(t)[0], "amd64", runtime.GOARCH)
	if out := shell(t, home, commands); !strings.Contains(out, "eventhook "+testVersion) {
		t.Errorf("got %s, want the version", out)
	}
}

// pageBlocks returns the blocks of commands of the runbook that name this test.
func pageBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	raw, err := os.ReadFile(top + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(raw), "```sh\n")[1:] {
		if block, rest, _ := strings.Cut(part, "\n```\n"); strings.HasPrefix(rest, "<!-- run by: "+t.Name()+" -->") {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("no commands of the runbook name %s", t.Name())
	}
	return blocks
}

// shell runs commands in a folder, which is also the home.
func shell(t *testing.T, dir, commands string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	return string(out)
}

func TestTheRPM(t *testing.T) {
	path := only(t, release(t), "*.rpm")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if magic := []byte{0xed, 0xab, 0xee, 0xdb}; !bytes.HasPrefix(raw, magic) {
		t.Errorf("%s does not start with the magic number of rpm", path)
	}
	rpm := needs(t, "rpm", "`make servers` installs it")
	out, err := exec.Command(rpm, "-qlvp", path).CombinedOutput()
	for _, want := range []string{"/usr/bin/eventhook", "/etc/eventhook/eventhook.env", "/usr/lib/systemd/system/eventhook.service",
		"/usr/lib/systemd/system/eventhook-agent.service", "/etc/eventhook/agent.env"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("rpm -qlvp: got %s, %v; want %s", out, err, want)
		}
	}
}

func TestTheRPMIsInstalledAndRemoved(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to install a package")
	}
	needs(t, "rpm", "`make servers` installs it")
	inCopy(t, "rpm", only(t, release(t), "*.rpm"))
}

func TestTheUnitsAreHardened(t *testing.T) {
	analyze := needs(t, "systemd-analyze", "`make servers` installs it")
	for _, name := range []string{"eventhook.service", "eventhook-agent.service"} {
		t.Run(name, func(t *testing.T) { checkUnit(t, analyze, name) })
	}
}

func checkUnit(t *testing.T, analyze, name string) {
	t.Helper()
	unit := top + "/deploy/systemd/" + name
	const most = "15" // tenths of the exposure level; systemd calls 2.0 good
	out, err := exec.Command(analyze, "--no-pager", "security", "--offline=yes", "--threshold="+most, unit).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	// verify wants to find the program.
	copied := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(copied, bytes.ReplaceAll(raw, []byte("/usr/bin/eventhook"), []byte("/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command(analyze, "--no-pager", "verify", copied).CombinedOutput()
	if err != nil || strings.Contains(string(out), "eventhook") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
