"""sqlite3 on a database in memory: inserts, indexes, joins, JSON, updates, deletes, vacuum.

Pages are blocks of 4 KiB and a little more that stay for long; statements, rows and strings are small blocks with the
life of a statement, the smallest of them out of a list that each connection keeps; sorting takes pieces that double,
blobs are copied as they are. One thread.
"""
from suite import catalog
from suite.context import checksum

ROWS = {"tiny": 6000, "quick": 60000, "full": 90000}
SCRIPT = """
create table t(id integer primary key, name text, grp int, body blob);
with recursive c(i) as (select 1 union all select i + 1 from c where i < {rows})
  insert into t select i, 'name' || (i * 7919 % 60013), i * 31 % 1009, zeroblob(i * 13 % 600) from c;
create index by_name on t(name);
create index by_group on t(grp, id);
select count(*), sum(length(body)), min(name), max(name) from t;
create table u as select grp, count(*) as n, group_concat(name) as names, json_group_array(id) as ids
  from t group by grp;
select sum(n), sum(length(names)), sum(json_array_length(ids)) from u;
select sum(length(j.value)), count(*) from u, json_each(u.ids) as j where u.grp % 3 = 0;
update t set body = zeroblob(length(body) * 2), name = upper(name) where id % 3 = 0;
select count(*), sum(length(a.name || b.name)) from t a join t b on a.grp = b.grp where a.id % 97 = 0 and b.id % 5 = 1;
select sum(length(x)) from (select printf('%08d-%s-%s', id, name, hex(substr(body, 1, 8))) as x from t order by x);
select name, row_number() over (partition by grp order by name desc) as r from t where grp < 3
  order by 2 desc, 1 limit 40;
delete from t where id % 5 = 0;
insert or replace into t select id + 7, replace(name, 'NAME', 'n'), grp, body from t where id % 4 = 0;
vacuum;
select count(*), count(distinct name), sum(length(body)) from t;
"""


def prepare(folder, scale):
    (folder / "work.sql").write_text(SCRIPT.format(rows=ROWS[scale]))


def run(context):
    return checksum(context.finish(["sqlite3", "-batch", ":memory:"], stdin=context.folder / "work.sql"))


WORKLOAD = catalog.Program(name="sqlite", group="programs", needs=[("sqlite3", "sqlite3")], prepare=prepare, run=run,
                           sentence="sqlite3 on a database in memory: pages, statements, sorting, JSON")
