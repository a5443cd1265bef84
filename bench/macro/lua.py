"""Lua on tables, strings, closures and coroutines.

Lua asks its allocator for everything, through one function that is realloc: strings as long as their text, tables
whose arrays double, closures of some dozen bytes, coroutines of a kilobyte. Its collector frees them in small steps
between allocations, in the order of a list of all objects. One thread, almost every block below 200 bytes.
"""
from suite import catalog
from suite.context import checksum

ROUNDS = {"tiny": 2, "quick": 8, "full": 14}
SCRIPT = r"""
local seed = 1
local function draw(n) seed = (seed * 1103515245 + 12345) % 2147483648 return (seed >> 8) % n end
local sum, kept = 0, {}
local function tree(depth) if depth == 0 then return {} end return {tree(depth - 1), tree(depth - 1), n = depth} end
local function count(t) local n = 1 if t[1] then n = n + count(t[1]) + count(t[2]) end return n end
for turn = 1, tonumber(arg[1]) do
  local index, rows, calls, lazy = {}, {}, {}, {}
  for i = 1, 12000 do
    local word = string.rep(string.char(97 + draw(26)), 1 + draw(9)) .. draw(4000)
    index[word] = (index[word] or "") .. i
    rows[#rows + 1] = {id = i, word = word, at = {x = i, y = i * 2}}
    if i % 4 == 0 then calls[#calls + 1] = function(x) return word .. (x + i) end end
    if i % 40 == 0 then
      lazy[#lazy + 1] = coroutine.wrap(function(x) while true do x = coroutine.yield(word .. x) end end)
    end
  end
  table.sort(rows, function(a, b) if a.word == b.word then return a.id < b.id end return a.word < b.word end)
  local parts = {}
  for i, row in ipairs(rows) do parts[i] = string.format("%s=%s;", row.word, index[row.word]) end
  local text = table.concat(parts)
  for name, value in text:gmatch("(%a+)%d*=(%d+);") do sum = sum + #name + #value end
  for i, call in ipairs(calls) do sum = sum + #call(i) end
  for i, call in ipairs(lazy) do sum = sum + #call(i) end
  sum = sum + #text:gsub("1", "<one>"):upper() + count(tree(13))
  kept[turn % 3] = {index, rows, calls}
end
print(sum)
"""


def prepare(folder, scale):
    (folder / "work.lua").write_text(SCRIPT)


def run(context):
    return checksum(context.finish(["lua5.4", context.folder / "work.lua", ROUNDS[context.scale]]))


WORKLOAD = catalog.Program(name="lua", group="programs", needs=[("lua5.4", "lua5.4")], prepare=prepare, run=run,
                           sentence="Lua on tables, strings, closures and coroutines: every object by realloc")
