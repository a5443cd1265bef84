"""perl on hashes, strings, closures and regular expressions.

perl keeps heads and bodies of its values in lists of its own, carved out of 4 KiB blocks; what it asks of malloc are
the strings, the bodies of arrays and hashes, and one block per hash key. Strings are grown by realloc a little at a
time, and freed in an order that has nothing to do with that of their allocation. One thread.
"""
from suite import catalog
from suite.context import checksum

ROUNDS = {"tiny": 1, "quick": 5, "full": 9}
SCRIPT = r"""
use strict; use warnings;
my ($seed, $sum, @kept) = (1, 0);
sub draw { $seed = ($seed * 1103515245 + 12345) % 2147483648; return ($seed >> 8) % $_[0]; }
for my $turn (1 .. shift) {
  my (%count, %lists, @closures);
  for my $i (1 .. 12000) {
    my $word = join "", map { chr(97 + draw(26)) } 1 .. 2 + draw(9);
    $count{$word} .= "x" x draw(90);
    push @{$lists{substr $word, 0, 2}}, { id => $i, word => $word, at => [$i, $i * 2] };
    push @closures, sub { return "$word:" . ($_[0] + $i) } if $i % 8 == 0;
  }
  my $text = join " ", sort { $a cmp $b } keys %count;
  (my $marked = $text) =~ s/([aeiou])(\w)/<$1$2>/g;
  my %back = map { /^(\w+?)<(\w\w)>/ ? ($1 => $2) : () } split / /, $marked;
  my @order = sort { $a->{word} cmp $b->{word} || $a->{id} <=> $b->{id} } map { @$_ } values %lists;
  my $page = ""; $page .= sprintf "%05d %-12s %s\n", $_->{id}, $_->{word}, length $count{$_->{word}} for @order;
  $sum += length($page) + unpack("%32C*", $page) + scalar(keys %back);
  $sum += length $_->($turn) for @closures;
  $kept[$turn % 4] = [\%lists, \@order, $page, \@closures];
}
print "$sum ", scalar(@kept), "\n";
"""


def prepare(folder, scale):
    (folder / "work.pl").write_text(SCRIPT)


def run(context):
    return checksum(context.finish(["perl", context.folder / "work.pl", ROUNDS[context.scale]],
                                   env={"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}))


WORKLOAD = catalog.Program(name="perl", group="programs", needs=[("perl", "perl")], prepare=prepare, run=run,
                           sentence="perl on hashes, growing strings, closures and regular expressions")
