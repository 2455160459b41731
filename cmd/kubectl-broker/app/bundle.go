package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// bundled is a file in the archive that the command bundle writes.
type bundled struct {
	name    string
	about   string
	content []byte
}

func newBundleCommand(p *plugin) *cobra.Command {
	var file string
	var listOnly, anonymous bool
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Collect what belongs to a report of a problem in one file.",
		Long: `Writes an archive with this product's objects, the events about them, the status and
the versions, and first lists what is in it. It reads no Secret, no ConfigMap, no log and
no object of yours. Of objects it takes name, labels, spec and status as this version
knows them, and no annotation. Names of clusters, namespaces and users, and addresses,
stay in it, unless --anonymous replaces them: read it before you send it to others.`,
		Example: `  kubectl broker bundle --context broker
  kubectl broker bundle --anonymous
  kubectl broker bundle --list
  kubectl logs -n liqo-resource-broker -l app.kubernetes.io/part-of=liqo-resource-broker --tail=-1 > log.txt`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write, which must not exist; unset: broker-bundle-CONTEXT-TIME.tar.gz")
	cmd.Flags().BoolVar(&anonymous, "anonymous", false, "replace names and addresses by pseudonyms, and leave labels out")
	cmd.Flags().BoolVar(&listOnly, "list", false, "list the content and write nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.connectSelected()
		if err != nil {
			return err
		}
		files, err := p.collectFiles(cmd.Context(), c)
		if err != nil {
			return err
		}
		context := c.context
		if anonymous {
			if context, err = hideNames(files, context); err != nil {
				return err
			}
		}
		if err := writeContents(p.ErrOut, files); err != nil || listOnly {
			return err
		}
		if file == "" {
			file = "broker-bundle-" + fileName(context) + "-" + p.now().UTC().Format("20060102-150405") + ".tar.gz"
		}
		if err := writeArchive(file, files, p.now()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.Out, file)
		return err
	}
	return cmd
}

// fileName turns the name of a context into a part of a file name: it replaces every character
// except letters, digits, '-', '_' and '.' by '_'.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return r
		}
		return '_'
	}, name)
}

func (p *plugin) collectFiles(ctx context.Context, c *connection) ([]bundled, error) {
	snapshot, err := c.gatherObjects(ctx, c.scopeNamespace(), p.now(), whole)
	if err != nil {
		return nil, err
	}
	c.readAllEvents(ctx, snapshot)
	var text bytes.Buffer
	if err := view.WriteStatus(&text, view.NewStatus(snapshot), snapshot, func(_ view.Level, s string) string { return s }); err != nil {
		return nil, err
	}
	files := []bundled{
		{name: "version.txt", about: "version of this program", content: []byte(version.String() + "\n")},
		{name: "status.txt", about: "kubectl broker status", content: text.Bytes()},
	}
	for _, group := range view.Export(snapshot) {
		content, err := yaml.Marshal(group.Objects)
		if err != nil {
			return nil, err
		}
		files = append(files, bundled{name: group.Resource + ".yaml", about: fmt.Sprintf("%d objects: name, labels, spec, status", len(group.Objects)), content: content})
	}
	content, err := yaml.Marshal(view.ExportEvents(snapshot))
	if err != nil {
		return nil, err
	}
	return append(files, bundled{name: "events.yaml", about: "events about these objects", content: content}), nil
}

// hideNames replaces names and addresses in the files by pseudonyms. It returns the pseudonym of the context.
func hideNames(files []bundled, context string) (string, error) {
	names, documents := &view.Pseudonyms{}, make([]any, len(files))
	names.LearnName("cluster", context)
	for i, f := range files {
		if !strings.HasSuffix(f.name, ".yaml") {
			continue
		}
		if err := yaml.Unmarshal(f.content, &documents[i]); err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		names.Learn(documents[i])
	}
	for i := range files {
		if documents[i] == nil {
			files[i].content = []byte(names.ReplaceText(string(files[i].content)))
			continue
		}
		content, err := yaml.Marshal(names.Replace(documents[i]))
		if err != nil {
			return "", err
		}
		files[i].content = content
	}
	return names.ReplaceText(context), nil
}

// readAllEvents adds the events about objects of this product to the snapshot, or a gap if the user
// may not list events.
func (c *connection) readAllEvents(ctx context.Context, s *view.Snapshot) {
	for _, kind := range view.EventKinds() {
		events := &corev1.EventList{}
		if err := c.List(ctx, events, client.MatchingFields{"involvedObject.kind": kind}, client.InNamespace(c.scopeNamespace())); err != nil {
			s.Gaps = append(s.Gaps, gapOf("events", err))
			return
		}
		s.Events = append(s.Events, events.Items...)
	}
}

func writeContents(out io.Writer, files []bundled) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "FILE\tBYTES\tCONTENT")
	for _, f := range files {
		fmt.Fprintf(table, "%s\t%d\t%s\n", f.name, len(f.content), f.about)
	}
	return table.Flush()
}

// writeArchive writes the files to a new archive, which only its owner can read. It returns an
// error if the file already exists.
func writeArchive(name string, files []bundled, at time.Time) (err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	slices.SortFunc(files, func(a, b bundled) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}
