import subprocess,json,sys,time
q=subprocess.Popen(['qemu-system-x86_64','-machine','none','-nodefaults','-sandbox','on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny','-display','none','-qmp','stdio',
 '-blockdev','{"node-name":"image","driver":"raw","read-only":true,"file":{"driver":"file","filename":"/tmp/incr_q/base.raw"}}',
 '-blockdev','{"node-name":"overlay-0","driver":"qcow2","file":{"driver":"file","filename":"overlay-0.qcow2"},"backing":"image","cache":{"no-flush":true}}'],stdin=subprocess.PIPE,stdout=subprocess.PIPE,text=True)
def call(c,**a):
    q.stdin.write(json.dumps({"execute":c,"arguments":a})+"\n"); q.stdin.flush()
    while True:
        l=q.stdout.readline()
        if not l: print("DEAD",c,q.wait()); sys.exit(1)
        if not l.startswith('{'): continue
        d=json.loads(l)
        if 'return' in d: return d['return']
        if 'error' in d: print(c,d['error']); return None
q.stdout.readline(); call('qmp_capabilities')
mk=lambda n,b,f:subprocess.run(['qemu-img','create','-q','-u','-f','qcow2','-o','extended_l2=on,cluster_size=128k' if '--ext' in sys.argv else 'cluster_size=64k','-F',f,'-b',b,f'overlay-{n}.qcow2','64M'],check=True)
for n in range(1,8):
    subprocess.run(['qemu-img','bench'],capture_output=True) if 0 else None
    call('human-monitor-command',**{'command-line':f'qemu-io overlay-{n-1} "write -P {n} {n*300}k 12k"'})
    mk(n,f'overlay-{n-1}.qcow2','qcow2')
    call('blockdev-add',**{"node-name":f"overlay-{n}","driver":"qcow2","file":{"driver":"file","filename":f"overlay-{n}.qcow2"},"backing":None,"cache":{"no-flush":True}})
    call('blockdev-snapshot',node=f'overlay-{n-1}',overlay=f'overlay-{n}')
extra={'backing-file':'/tmp/incr_q/base.raw'} if '--bf' in sys.argv else {}
dev='overlay-7' if '--active' in sys.argv else 'overlay-6'
print(call('block-stream',**{'job-id':'flatten','device':dev,'base-node':'image','auto-dismiss':False,**extra}))
for _ in range(50):
    j=call('query-jobs'); 
    if j and j[0]['status']=='concluded': print(j); break
    time.sleep(.05)
print(call('job-dismiss',id='flatten'))
for n in range(6,-1,-1): print(n,call('blockdev-del',**{'node-name':f'overlay-{n}'}))
call('quit'); print(q.wait())
